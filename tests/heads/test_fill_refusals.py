"""Fills and positions that do not fit: one clear error each, and the model stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from deadhead import captured, gated, head_means
from deadhead.errors import DataError, DeadheadError, HeadError, UnknownName, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, hooks

SHUT = ["encoder.0.1", "encoder.1.3"]


def means_of(family: str, **options):
    model = build(family, **options)
    return head_means(model, [batch_of(model)])


def run_of(family: str, batch=None, heads=None, **options):
    model = build(family, **options)
    with captured(model, heads) as run:
        answers(model, batch)
    return run


def empty_run():
    with captured(build("bert")) as run:
        pass
    return run


BATCH = {"input_ids": torch.randint(3, 90, (2, 12), generator=torch.Generator().manual_seed(1))}
PADDED = torch.tensor([[1] * 12, [1] * 8 + [0] * 4])
FILLS: list[tuple[str, Any, type, str]] = [
    ("a typing error", lambda: "banana", UnknownName, "no fill 'banana'. Known: resample, zero."),
    ("nearly a name", lambda: "zeros", UnknownName, "Did you mean 'zero'?"),
    ("a tensor", lambda: torch.zeros(2, 4), DataError, "got Tensor"),
    ("nothing", lambda: None, DataError, "got NoneType"),
    ("means of another model", lambda: means_of("gpt2"), HeadError, "the means of another one"),
    (
        "means of a shorter model",
        lambda: means_of("bert", num_hidden_layers=1),
        HeadError,
        "only this model has encoder layer 1",
    ),
    (
        "means of other widths",
        lambda: means_of("bert", hidden_size=64),
        HeadError,
        "encoder layer 0: expected the means of heads of width 8, got 16",
    ),
    (
        "means of other heads",
        lambda: means_of("bert", num_attention_heads=2, hidden_size=16),
        HeadError,
        "encoder layer 0: expected the means of its heads, got none of 2-3",
    ),
    ("a run of another model", lambda: run_of("gpt2"), HeadError, "the captured run of another"),
    (
        "a run of other widths",
        lambda: run_of("bert", hidden_size=64),
        HeadError,
        "expected the captured run of heads of width 8, got 16",
    ),
    (
        "a run of other heads",
        lambda: run_of("bert", heads=["encoder.0.1"]),
        HeadError,
        "the captured run has nothing of encoder layer 1",
    ),
    ("a block without a run", empty_run, DataError, "expected a captured run, got an empty one"),
]


@pytest.mark.parametrize(
    ("fill", "kind", "message"), [f[1:] for f in FILLS], ids=[f[0] for f in FILLS]
)
def test_a_fill_that_does_not_fit_is_refused_before_anything_runs(fill, kind, message):
    model = build("bert")
    before, whole = hooks(model), answers(model)
    with pytest.raises(DeadheadError) as error, gated(model, closed=SHUT, fill=fill()):
        pytest.fail("the block was entered")
    assert type(error.value) is kind
    assert message in error.value.message
    assert error.value.hint
    assert hooks(model) == before
    assert apart(whole, answers(model)) == 0


RUNS: list[tuple[str, Any, Any, str]] = [
    (
        "with other padding",
        lambda: run_of("bert", {**BATCH, "attention_mask": PADDED.flip(0)}),
        {**BATCH, "attention_mask": PADDED},
        "encoder: expected a captured run with the padding of this batch, got other padding",
    ),
    (
        "with padding, for none",
        lambda: run_of("bert", {**BATCH, "attention_mask": PADDED}),
        BATCH,
        "encoder: expected a captured run with the padding of this batch, got other padding",
    ),
    (
        "copies of an example",
        lambda: "resample",
        {"input_ids": BATCH["input_ids"][:1].repeat(3, 1)},
        'fill="resample" expects different examples in a batch, got copies',
    ),
    (
        "longer",
        lambda: run_of("bert", {"input_ids": torch.ones(2, 13).long()}),
        BATCH,
        "expected a captured run of 2 x 12 tokens, got 2 x 13 tokens",
    ),
    (
        "of a larger batch",
        lambda: run_of("bert", {"input_ids": torch.ones(3, 12).long()}),
        BATCH,
        "expected a captured run of 2 x 12 tokens, got 3 x 12 tokens",
    ),
    (
        "one example",
        lambda: "resample",
        {"input_ids": torch.ones(1, 12).long()},
        'fill="resample" expects a batch of at least two examples, got one',
    ),
    (
        "an example of padding alone",
        lambda: "resample",
        {**BATCH, "attention_mask": torch.tensor([[1] * 12, [0] * 12])},
        "expects real tokens in each example, got one of padding alone",
    ),
]


@pytest.mark.parametrize(
    ("fill", "batch", "message"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS]
)
def test_inputs_that_a_fill_does_not_fit_are_refused(fill, batch, message):
    model = build("bert")
    before, whole = hooks(model), answers(model)
    with pytest.raises(DataError) as error, gated(model, closed=SHUT, fill=fill()):
        answers(model, batch)
    assert message in error.value.message
    assert error.value.hint
    assert hooks(model) == before
    assert apart(whole, answers(model)) == 0


def test_means_of_fewer_positions_are_refused():
    model = build("bert")
    short = head_means(model, [{"input_ids": BATCH["input_ids"][:, :9]}], per_position=True)
    with (
        pytest.raises(DataError, match="expected means of 12 positions in encoder, got 9"),
        gated(model, closed=SHUT, fill=short),
    ):
        answers(model, BATCH)
    with gated(model, closed=SHUT, fill=short):  # padding needs none
        answers(model, {**BATCH, "attention_mask": torch.tensor([[0] * 3 + [1] * 9] * 2)})


def test_a_layer_that_ran_more_often_is_refused():
    model = build("albert")
    with captured(model) as run:
        answers(model)
    ((place, uses),) = run.values.items()
    del uses[1]
    with (
        pytest.raises(DataError, match="expected a captured run with 2 uses of this layer, got 1"),
        gated(model, closed=["encoder.0.1"], fill=run),
    ):
        answers(model)
    assert place == ("encoder", 0)


SAME: list[tuple[str, Any]] = [
    ("numbers", [1, -3]),
    ("a tuple", (1, 9)),
    ("a tensor", torch.tensor([1, 9])),
    ("an array", np.array([1, -3])),
    ("numbers of numpy", [np.int64(1), torch.tensor(9)]),
    ("a range", range(1, 10, 8)),
    ("a mask", torch.zeros(12).index_fill(0, torch.tensor([1, 9]), 1).bool()),
    ("a list of booleans", [n in (1, 9) for n in range(12)]),
    ("each example", [[1, 9], [1, -3]]),
    ("a tensor for each example", torch.tensor([[1, 9], [9, 1]])),
    ("tensors for each example", [torch.tensor([1, 9]), torch.tensor([-3, 1])]),
    ("a mask for each", torch.zeros(2, 12).index_fill(1, torch.tensor([1, 9]), 1).bool()),
    ("a mapping", {"encoder": [1, 9]}),
]


@pytest.mark.parametrize("positions", [s[1] for s in SAME], ids=[s[0] for s in SAME])
def test_positions_can_be_written_in_many_ways(positions):
    model = build("bert")
    with gated(model, closed=SHUT, positions=[1, 9]):
        expected = answers(model, BATCH)
    with gated(model, closed=SHUT, positions=positions):
        assert apart(answers(model, BATCH), expected) == 0
    with gated(model, closed=SHUT):
        assert apart(answers(model, BATCH), expected) > 1e-3
    assert apart(answers(model, BATCH), expected) > 1e-3


def test_each_example_at_its_own_positions():
    model = build("bert")
    with gated(model, closed=SHUT, positions=[[1, 2], []]):
        result = answers(model, BATCH)[0]
    with gated(model, closed=SHUT, positions=[1, 2]):
        expected = answers(model, BATCH)[0]
    assert (result[0] - expected[0]).abs().max() < 1e-12
    assert (result[1] - answers(model, BATCH)[0][1]).abs().max() < 1e-12
    assert (result[1] - expected[1]).abs().max() > 1e-3


POSITIONS: list[tuple[str, Any, str]] = [
    ("none", [], "expects at least one position, got none"),
    ("none of any example", [[], []], "expects at least one position, got none"),
    ("behind the end", [3, 12], "expects positions in the encoder's sequence of 12 tokens, got 12"),
    ("before the start", [-13], "got -13"),
    ("a mask of another length", [True] * 11, "a mask for the encoder's sequence of 12 tokens"),
    ("a mask of another batch", torch.ones(3, 12).bool(), "those of 2 examples, got 3"),
    ("for too few examples", [[1]], "those of 2 examples, got 1"),
    ("an attention mask", torch.ones(2, 12).long(), "each position once"),
    ("one position in two ways", [1, -11], "each position once"),
    ("a number", 3, "expects a list, got 3"),
    ("a word", "last", "expects a list, got 'last'"),
    ("halves", [0.5], "whole numbers or booleans, got 0.5"),
    ("words", ["a"], "whole numbers or booleans, got 'a'"),
    ("both kinds", [True, 3], "booleans or numbers, got both"),
    ("both depths", [1, [2]], "numbers or a list for each example, got both"),
    ("another block", {"decoder": [1]}, "a block of the model, got 'decoder'"),
]


@pytest.mark.parametrize(
    ("positions", "message"), [p[1:] for p in POSITIONS], ids=[p[0] for p in POSITIONS]
)
def test_positions_that_do_not_fit_are_refused(positions, message):
    model = build("bert")
    before, whole = hooks(model), answers(model)
    with pytest.raises(DataError) as error, gated(model, closed=SHUT, positions=positions):
        answers(model, BATCH)
    assert message in error.value.message
    assert error.value.hint
    assert hooks(model) == before
    assert apart(whole, answers(model)) == 0


def test_several_blocks_have_positions_of_their_own():
    model = build("marian")
    both = ["encoder.0.1", "decoder.1.2"]
    with (
        pytest.raises(DataError, match=r"each block with gates \(decoder, encoder\)"),
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
    with gated(model, closed=SHUT, positions=[n == 11 for n in range(12)]):
        assert apart(answers(model, BATCH), expected) == 0
    with pytest.raises(DataError, match="got 12"), gated(model, closed=SHUT, positions=[12]):
        answers(model, BATCH)
    assert apart(answers(model, BATCH), expected) > 1e-4


class Flat(torch.nn.Module):
    """A model that runs all examples as one sequence, as some do with images."""

    def __init__(self):
        super().__init__()
        self.inner = build("bert")

    def forward(self, input_ids: torch.Tensor):
        return self.inner(input_ids=input_ids.view(1, -1))


def test_rows_that_are_not_the_tokens_are_refused():
    """Canine works on a row for every four characters between its first and its last layer."""
    model = build("canine").float()  # its own code overflows in double precision
    batch, heads = {"input_ids": BATCH["input_ids"]}, ["encoder.1.0"]
    with (
        pytest.raises(UnsupportedModel, match="which are not the tokens of the inputs"),
        gated(model, closed=heads, positions=[1]),
    ):
        answers(model, batch)
    with gated(model, closed=heads, fill=head_means(model, [batch])):
        filled = answers(model, batch)
    assert apart(filled, answers(model, batch)) > 1e-4
    padded = {**batch, "attention_mask": torch.tensor([[1] * 12, [1] * 8 + [0] * 4])}
    with pytest.raises(UnsupportedModel, match="so its padding is unknown"):
        head_means(model, [padded])


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
        pytest.raises(HeadError, match="drop_output_bias expects heads that are closed everywhere"),
        gated(model, closed=SHUT, drop_output_bias=True, **options),
    ):
        pass
