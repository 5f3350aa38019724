"""Fills and positions that do not fit: one clear error each, and the model stays as it was."""

from typing import Any

import numpy as np
import pytest
import torch

from deadhead import captured, gated, head_means
from deadhead.errors import DataError, HeadError, UnknownName, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, refused

SHUT = ["encoder.0.1", "encoder.1.3"]
BATCH = {"input_ids": torch.randint(3, 90, (2, 12), generator=torch.Generator().manual_seed(1))}
PADDED = torch.tensor([[1] * 12, [1] * 8 + [0] * 4])


def means_of(family, **options):
    model = build(family, **options)
    return head_means(model, [batch_of(model)])


def run_of(family, batch=None, heads=None, **options):
    model = build(family, **options)
    with captured(model, heads) as run:
        answers(model, batch)
    return run


def empty_run():
    with captured(build("bert")) as run:
        pass
    return run


FILLS: list[tuple[Any, type, str]] = [
    (lambda: "banana", UnknownName, "no fill 'banana'. Known: resample, zero."),
    (lambda: torch.zeros(2, 4), DataError, "got Tensor"),
    (lambda: means_of("gpt2"), HeadError, "only the other one has decoder layer 0"),
    (lambda: means_of("bert", num_hidden_layers=3), HeadError, "only the other one has encoder"),
    (lambda: means_of("bert", num_hidden_layers=1), HeadError, "only this model has encoder"),
    (lambda: means_of("bert", hidden_size=64), HeadError, "the means of heads of width 8, got 16"),
    (
        lambda: means_of("bert", num_attention_heads=2, hidden_size=16),
        HeadError,
        "encoder layer 0: expected the means of its heads, got none of 2-3",
    ),
    (lambda: run_of("gpt2"), HeadError, "the captured run of another"),
    (lambda: run_of("bert", hidden_size=64), HeadError, "run of heads of width 8, got 16"),
    (
        lambda: run_of("bert", heads=["encoder.0.1"]),
        HeadError,
        "the captured run has nothing of encoder layer 1",
    ),
    (empty_run, DataError, "expected a captured run, got an empty one"),
]


@pytest.mark.parametrize(("fill", "kind", "message"), FILLS, ids=[f[2] for f in FILLS])
def test_a_fill_that_does_not_fit_is_refused_before_anything_runs(fill, kind, message):
    model, fill = build("bert"), fill()
    with refused(model, kind, message), gated(model, closed=SHUT, fill=fill):
        pytest.fail("the block was entered")


RUNS: list[tuple[Any, Any, str]] = [
    (
        lambda: run_of("bert", {**BATCH, "attention_mask": PADDED.flip(0)}),
        {**BATCH, "attention_mask": PADDED},
        "encoder: expected a captured run with the padding of this batch, got other padding",
    ),
    (
        lambda: run_of("bert", {**BATCH, "attention_mask": PADDED}),
        BATCH,
        "encoder: expected a captured run with the padding of this batch, got other padding",
    ),
    (
        lambda: "resample",
        {"input_ids": BATCH["input_ids"][:1].repeat(3, 1)},
        'fill="resample" expects different examples in a batch, got copies',
    ),
    (
        lambda: run_of("bert", {"input_ids": torch.ones(3, 13).long()}),
        BATCH,
        "expected a captured run of 2 x 12 tokens, got 3 x 13 tokens",
    ),
    (
        lambda: "resample",
        {"input_ids": torch.ones(1, 12).long()},
        'fill="resample" expects a batch of at least two examples, got one',
    ),
    (
        lambda: "resample",
        {**BATCH, "attention_mask": torch.tensor([[1] * 12, [0] * 12])},
        "expects real tokens in each example, got one of padding alone",
    ),
]


@pytest.mark.parametrize(("fill", "batch", "message"), RUNS)
def test_inputs_that_a_fill_does_not_fit_are_refused(fill, batch, message):
    model, fill = build("bert"), fill()
    with refused(model, DataError, message), gated(model, closed=SHUT, fill=fill):
        answers(model, batch)


def test_a_layer_that_ran_more_often_is_refused():
    model = build("albert")
    with captured(model) as run:
        answers(model)
    del run.values["encoder", 0][1]
    with (
        refused(model, DataError, "expected a captured run with 2 uses of this layer, got 1"),
        gated(model, closed=["encoder.0.1"], fill=run),
    ):
        answers(model)


SAME: list[Any] = [
    [1, -3],
    np.array([1, -3]),
    range(1, 10, 8),
    torch.zeros(12).index_fill(0, torch.tensor([1, 9]), 1).bool(),
    torch.zeros(2, 12).index_fill(1, torch.tensor([1, 9]), 1).bool(),
    {"encoder": (1, 9)},
]


def test_positions_can_be_written_in_many_ways():
    model = build("bert")
    with gated(model, closed=SHUT, positions=[1, 9]):
        expected = answers(model, BATCH)
    for positions in SAME:
        with gated(model, closed=SHUT, positions=positions):
            assert apart(answers(model, BATCH), expected) == 0
    with gated(model, closed=SHUT):
        assert apart(answers(model, BATCH), expected) > 1e-3
    assert apart(answers(model, BATCH), expected) > 1e-3


def test_each_example_at_its_own_positions():
    model = build("bert")
    (whole,) = answers(model, BATCH)
    mask = torch.zeros(2, 12).bool()
    mask[0, 1:3] = True
    with gated(model, closed=SHUT, positions=mask):
        (result,) = answers(model, BATCH)
    with gated(model, closed=SHUT, positions=[1, 2]):
        (expected,) = answers(model, BATCH)
    assert (result[0] - expected[0]).abs().max() < 1e-12
    assert (result[1] - whole[1]).abs().max() < 1e-12 < 1e-3 < (result[1] - expected[1]).abs().max()


POSITIONS: list[tuple[Any, str]] = [
    ([], "whole numbers or booleans, got []"),
    ([[1, 2], [3, 4]], "whole numbers or booleans, got [[1, 2], [3, 4]]"),
    ([3, 12], "expects positions in the encoder's sequence of 12 tokens, got 12"),
    ([-13], "got -13"),
    ([True] * 11, "a mask for 2 x 12 tokens of the encoder, got 11"),
    (torch.ones(3, 12).bool(), "a mask for 2 x 12 tokens of the encoder, got 3 x 12"),
    (torch.ones(12).long(), "each position once"),
    (3, "whole numbers or booleans, got 3"),
    ("last", "expects a list, got 'last'"),
    ([0.5], "whole numbers or booleans, got [0.5]"),
    ([1, [2]], "expects a list, got [1, [2]]"),
    ({"decoder": [1]}, "a block of the model, got 'decoder'"),
]


@pytest.mark.parametrize(("positions", "message"), POSITIONS, ids=[p[1] for p in POSITIONS])
def test_positions_that_do_not_fit_are_refused(positions, message):
    model = build("bert")
    with refused(model, DataError, message), gated(model, closed=SHUT, positions=positions):
        answers(model, BATCH)


def test_several_blocks_have_positions_of_their_own():
    model = build("marian")
    both = ["encoder.0.1", "decoder.1.2"]
    with (
        refused(model, DataError, "each block with gates (decoder, encoder)"),
        gated(model, closed=both, positions=[1]),
    ):
        pass
    with gated(model, closed=both, positions={"encoder": [1], "decoder": [6]}):
        expected = answers(model)
    with gated(model, closed=both[:1], positions=[1]), gated(model, closed=both[1:], positions=[6]):
        assert apart(answers(model), expected) == 0  # one block has gates: it is meant
    with gated(model, closed=both, positions={"encoder": [1]}):
        everywhere = answers(model)
    with gated(model, closed=both, positions={"encoder": [1], "decoder": list(range(7))}):
        assert apart(answers(model), everywhere) == 0
    assert apart(expected, everywhere) > 1e-3


def test_longformer_has_the_positions_of_its_inputs():
    """It works on 16 rows for 12 tokens."""
    model = build("longformer")
    with gated(model, closed=SHUT, positions=[-1]):
        expected = answers(model, BATCH)
    with gated(model, closed=SHUT, positions=[11]):
        assert apart(answers(model, BATCH), expected) == 0
    with pytest.raises(DataError, match="got 12"), gated(model, closed=SHUT, positions=[12]):
        answers(model, BATCH)
    assert apart(answers(model, BATCH), expected) > 1e-4


def test_rows_that_are_not_the_tokens_are_refused():
    """Canine works on a row for every four characters between its first and its last layer."""
    model = build("canine").float()  # its own code overflows in double precision
    heads = ["encoder.1.0"]
    with (
        refused(model, UnsupportedModel, "which are not the tokens of the inputs"),
        gated(model, closed=heads, positions=[1]),
    ):
        answers(model, BATCH)
    with gated(model, closed=heads, fill=head_means(model, [BATCH])):
        assert apart(answers(model, BATCH), answers(build("canine").float(), BATCH)) > 1e-4
    with pytest.raises(UnsupportedModel, match="so its padding is unknown"):
        head_means(model, [{**BATCH, "attention_mask": PADDED}])


class Flat(torch.nn.Module):
    """A model that runs all examples as one sequence, as some do with images."""

    def __init__(self):
        super().__init__()
        self.inner = build("bert")

    def forward(self, input_ids):
        return self.inner(input_ids=input_ids.view(1, -1))


@pytest.mark.parametrize("options", [{"fill": "resample"}, {"positions": [0]}])
def test_rows_without_examples_are_refused(options):
    model = Flat()
    with (
        pytest.raises(UnsupportedModel, match="its examples cannot be separated"),
        gated(model, closed=SHUT, **options),
    ):
        answers(model, BATCH)
    whole = answers(model, BATCH)
    with gated(model, closed=SHUT, fill=head_means(model, [BATCH])):
        assert apart(answers(model, BATCH), whole) > 1e-3


@pytest.mark.parametrize("options", [{"fill": "resample"}, {"positions": [1]}])
def test_a_dropped_bias_needs_heads_that_are_closed_with_zero(options):
    model = build("bert")
    with (
        refused(model, HeadError, "drop_output_bias expects heads that are closed everywhere"),
        gated(model, closed=SHUT, drop_output_bias=True, **options),
    ):
        pass
