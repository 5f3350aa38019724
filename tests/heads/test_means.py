"""The means of heads: by hand, over real tokens alone, and refused where there is nothing to
average.
"""

from functools import partial
from typing import Any

import pytest
import torch
from fills_by_hand import read

from deadhead import HeadMeans, discover, head_means, prune
from deadhead.errors import DataError, HeadError
from deadhead.forward import forward
from slow import slow_but
from tiny_models import batch_of, build, hooks, limit, refused

FAMILIES = ["bert", "gpt2", "llama", "marian", "t5", "xlnet", "fsmt", "albert", "longformer"]


def exact(family):
    """A model in double precision, except where its own code overflows there."""
    return build(family).float() if family == "fsmt" else build(family)


@pytest.mark.parametrize("family", slow_but("albert fsmt longformer marian xlnet", FAMILIES))
def test_a_mean_is_over_the_real_tokens_of_all_batches(family):
    model = exact(family)
    first = batch_of(model)
    second = {name: value[:1, :6] for name, value in first.items()}
    means = head_means(model, [first, second])
    means.check(discover(model))
    decoded = ("decoder", "cross") if "decoder_input_ids" in first else ()
    runs = [read(model, partial(forward, model, batch)) for batch in (first, second)]
    for attention in discover(model).attentions:
        chosen, every = [], []
        for batch, run in zip((first, second), runs, strict=True):
            mask = batch["attention_mask"].bool()
            if attention.block in decoded:
                mask = torch.ones_like(batch["decoder_input_ids"]).bool()
            for rows in run[attention.block, attention.layer]:
                chosen.append(rows[:, : mask.shape[1]][mask])
                every.append(rows.flatten(0, 1))
        expected = torch.cat(chosen).mean(0)
        assert (means.of(attention) - expected).abs().max() < limit(model)
        if attention.block not in decoded:  # the twin: padding would have shown
            assert (torch.cat(every).mean(0) - expected).abs().max() > 1e-4


@pytest.mark.parametrize("family", slow_but("albert fsmt longformer marian xlnet", FAMILIES))
def test_neither_padding_nor_its_side_nor_the_batching_changes_a_mean(family):
    model = exact(family)
    batch = batch_of(model)
    if "decoder_input_ids" in batch:
        batch["decoder_attention_mask"] = torch.ones(2, 7, dtype=torch.long)
        batch["decoder_attention_mask"][1, 4:] = 0
    singles = []
    for row in range(2):
        single = {}
        for name, value in batch.items():
            mask = batch[("decoder_" if name.startswith("decoder") else "") + "attention_mask"]
            single[name] = value[row : row + 1, : int(mask[row].sum())]
        singles.append(single)
    together, apiece = head_means(model, [batch]), head_means(model, iter(singles))
    for place, value in together.values.items():
        assert (value - apiece.values[place]).abs().max() < limit(model), place


@pytest.mark.parametrize("family", ["llama", "xlnet"])  # positions relative to each other
def test_left_padding_is_left_out_too(family):
    model = build(family)
    right = batch_of(model)
    left = {name: value.clone() for name, value in right.items()}
    for value in left.values():
        value[1] = value[1].roll(3)
    assert left["attention_mask"][1].tolist() == [0] * 3 + [1] * 9
    left["input_ids"][1, :3] = 7
    expected, means = head_means(model, [right]), head_means(model, [left])
    for place, value in means.values.items():
        assert (value - expected.values[place]).abs().max() < 1e-6  # rotary angles


def test_labels_say_what_the_decoder_reads():
    model = build("marian")
    batch = batch_of(model)
    del batch["decoder_input_ids"]
    batch["labels"] = torch.randint(3, 90, (2, 7))
    batch["labels"][1, 3:] = -100
    means = head_means(model, [batch])
    batch["labels"] = torch.where(batch["labels"] == -100, 5, batch["labels"])
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    batch["decoder_attention_mask"] = (torch.arange(7) < torch.tensor([[7], [3]])).long()
    expected = head_means(model, [batch])
    for place, value in means.values.items():
        assert (value - expected.values[place]).abs().max() < limit(model), place


def test_a_pruned_model_has_the_means_of_its_heads():
    model = build("bert")
    before = head_means(model, [batch_of(model)])
    prune(model, ["encoder.0.1", *(f"encoder.1.{i}" for i in range(4))])
    means = head_means(model, [batch_of(model)])
    assert means.kept == {("encoder", 0): (0, 2, 3), ("encoder", 1): ()}
    first = discover(model).attentions[0]
    assert (means.of(first) - before.of(first)).abs().max() < 1e-12  # chosen by their numbers


def test_the_model_stays_as_it_was():
    model = build("bert").train()
    model.bert.encoder.layer[0].eval()
    modes, before = [m.training for m in model.modules()], hooks(model)
    means = head_means(model, [batch_of(model)])
    with pytest.raises((TypeError, ValueError)):
        head_means(model, [{"no_such_input": torch.ones(1)}])
    assert [m.training for m in model.modules()] == modes
    assert hooks(model) == before
    assert not any(value.requires_grad for value in means.values.values())


def test_half_precision_is_summed_in_double_precision():
    model = build("bert")
    expected = head_means(model, [batch_of(model)])
    means = head_means(model.bfloat16(), [batch_of(model)])
    for place, value in means.values.items():
        assert value.dtype == torch.float32
        assert (value - expected.values[place]).abs().max() < 0.1


BATCH = batch_of(build("bert"))
MASK = BATCH["attention_mask"]
REFUSED: list[tuple[Any, str]] = [
    ([], "expected at least one batch, got none"),
    (
        [{**BATCH, "attention_mask": torch.zeros_like(MASK)}],
        "expected real tokens in encoder layer 0, got only padding",
    ),
    (BATCH, "expected a list of batches, got a single batch"),
    (None, "expected a list of batches, got NoneType"),
    (["hi"], "batch 0 expects a dict, got str"),
    (
        [BATCH, {"input_ids": torch.ones(5).long()}],
        "`input_ids` of batch 1 expects a tensor of examples x tokens, got shape [5]",
    ),
    ([{"input_ids": torch.ones(0, 5).long()}], "got shape [0, 5]"),
    ([{"input_ids": [[1, 2]]}], "examples x tokens, got list"),
    (
        [{**BATCH, "attention_mask": MASK[:, None, None].bool()}],
        "`attention_mask` expects batch x tokens, got 4 axes",
    ),
]


@pytest.mark.parametrize(("batches", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_cannot_be_averaged_is_refused(batches, text):
    model = build("bert")
    with refused(model, DataError, text):
        head_means(model, batches)


def test_a_mean_that_is_no_number_is_refused():
    model = build("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.value.bias[3] = float("nan")
    with pytest.raises(DataError, match="the mean of encoder layer 1 is not a finite number"):
        head_means(model, [BATCH])


def test_a_part_that_no_batch_has_run_has_no_means():
    means = HeadMeans(values={}, kept={("encoder", 0): (0,)})
    attention = discover(build("bert")).attentions[0]
    with pytest.raises(HeadError, match="encoder layer 0 has no means"):
        means.of(attention)
