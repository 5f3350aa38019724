"""The means of heads: by hand, over real tokens alone, and refused where there is nothing to average."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from deadhead import HeadMeans, discover, gated, head_means, prune
from deadhead.errors import DataError, HeadError
from deadhead.forward import forward
from deadhead.heads.discover import find_sites
from tiny_models import answers, apart, batch_of, build, hooks, limit

FAMILIES = ["bert", "gpt2", "llama", "marian", "t5", "xlnet", "fsmt", "albert", "longformer"]


def exact(family: str):
    """A model in double precision, except where its own code overflows there."""
    return build(family).float() if family == "fsmt" else build(family)


def read_by_hand(model, batch: dict[str, Any]) -> dict[tuple[str, int], list[torch.Tensor]]:
    """What each output projection reads, batch x tokens x heads * width, once for each call."""
    read: dict[tuple[str, int], list[torch.Tensor]] = {}
    undo = []
    for site in find_sites(model):
        calls = read.setdefault((site.block, site.layer), [])

        def keep(_, args, calls=calls, swap: bool = site.time_first):
            calls.append(args[0].transpose(0, 1) if swap else args[0])

        assert site.out is not None
        undo.append(site.out.register_forward_pre_hook(keep))
    with torch.no_grad():
        forward(model, batch)
    for handle in undo:
        handle.remove()
    return read


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "xlnet"])
def test_a_mean_is_over_the_real_tokens_of_all_batches(family):
    model = exact(family)
    first = batch_of(model)
    second = {name: value[:1, :6] for name, value in first.items()}
    means = head_means(model, [first, second])
    means.check(discover(model))
    decoded = ("decoder", "cross") if "decoder_input_ids" in first else ()
    read = [read_by_hand(model, first), read_by_hand(model, second)]
    for attention in discover(model).attentions:
        place = (attention.block, attention.layer)
        rows = []
        for batch, contexts in zip((first, second), read, strict=True):
            for context in contexts[place]:
                mask = batch["attention_mask"].bool()
                if attention.block in decoded:
                    mask = torch.ones_like(batch["decoder_input_ids"]).bool()
                rows.append(context[:, : mask.shape[1]][mask])
        expected = torch.cat(rows).mean(0).unflatten(-1, (-1, attention.width))
        assert (means.of(attention) - expected).abs().max() < limit(model)
        assert means.values[place].shape == (attention.size, attention.width)
        everything = torch.cat([c.flatten(0, 1) for r in read for c in r[place]]).mean(0)
        if attention.block not in decoded:  # the twin: padding would have shown
            assert (everything - expected.flatten()).abs().max() > 1e-4
    for block, tokens in means.tokens.items():
        assert tokens == (20 if block in decoded else 27)


@pytest.mark.parametrize("family", FAMILIES)
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
    assert together.tokens == apiece.tokens
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
    for per_position in (False, True):
        expected = head_means(model, [right], per_position=per_position)
        means = head_means(model, [left], per_position=per_position)
        assert means.tokens == {next(iter(means.tokens)): 21}
        for place, value in means.values.items():
            assert (value - expected.values[place]).abs().max() < 1e-6  # rotary angles


def test_means_per_position():
    model = build("gpt2")
    batch = batch_of(model)
    short = {name: value[:, :5] for name, value in batch.items()}
    means = head_means(model, [short, batch], per_position=True)
    (read,), (more,) = (
        read_by_hand(model, b)["decoder", 1] for b in (short, batch)
    )  # layer 1 differs by position
    value = means.values["decoder", 1]
    assert value.shape == (12, 4, 8)
    assert (value[11].flatten() - more[0, 11]).abs().max() < 1e-12  # one example is that long
    expected = torch.cat([read[:, 3], more[:, 3]]).mean(0)
    assert (value[3].flatten() - expected).abs().max() < 1e-12
    assert (value[3] - value[4]).abs().max() > 1e-2


def test_labels_say_what_the_decoder_reads():
    model = build("marian")
    batch = batch_of(model)
    del batch["decoder_input_ids"]
    batch["labels"] = torch.randint(3, 90, (2, 7))
    batch["labels"][1, 3:] = -100
    assert head_means(model, [batch]).tokens == {"encoder": 21, "decoder": 10, "cross": 10}


def test_a_pruned_model_has_the_means_of_its_heads():
    model = build("bert")
    before = head_means(model, [batch_of(model)])
    prune(model, ["encoder.0.1", *(f"encoder.1.{i}" for i in range(4))])
    means = head_means(model, [batch_of(model)])
    assert means.kept == {("encoder", 0): (0, 2, 3), ("encoder", 1): ()}
    first = discover(model).attentions[0]
    assert (means.of(first) - before.of(first)).abs().max() < 1e-12  # chosen by their numbers
    before.check(discover(model))
    with pytest.raises(
        HeadError, match=r"encoder layer 0: expected the means of its heads, got none"
    ):
        means.check(discover(build("bert")))


def test_the_model_stays_as_it_was():
    model = build("bert").train()
    model.bert.encoder.layer[0].eval()
    modes, before = [m.training for m in model.modules()], hooks(model)
    means = head_means(model, [batch_of(model)])
    again = head_means(model, [batch_of(model)])
    assert all(torch.equal(value, again.values[place]) for place, value in means.values.items())
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


def test_means_inside_gates_are_those_of_the_gated_model():
    model = build("bert")
    with gated(model, closed=["encoder.0.1"]):
        means = head_means(model, [batch_of(model)])
    assert not means.values["encoder", 0][1].any()
    assert means.values["encoder", 0][0].any()


def test_what_cannot_be_averaged_is_refused():
    model = build("bert")
    batch, before, whole = batch_of(model), hooks(model), answers(model)
    empty = {**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])}
    deep = {**batch, "attention_mask": batch["attention_mask"][:, None, None].bool()}
    for batches, message in (
        ([], "expected at least one batch, got none"),
        ([empty], "expected real tokens in encoder layer 0, got only padding"),
        (batch, "expected a list of batches, got a single batch"),
        (None, "expected a list of batches, got NoneType"),
        (["hi"], "batch 0 expects a dict, got str"),
        (
            [batch, {"input_ids": torch.ones(5).long()}],
            r"`input_ids` of batch 1 .* got shape \[5\]",
        ),
        ([{"input_ids": torch.ones(0, 5).long()}], r"got shape \[0, 5\]"),
        ([{"input_ids": [[1, 2]]}], "examples x tokens, got list"),
        ([deep], "`attention_mask` expects batch x tokens, got 4 axes"),
    ):
        with pytest.raises(DataError, match=message) as error:
            head_means(model, batches)
        assert error.value.hint
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.value.bias[3] = float("nan")
    with pytest.raises(DataError, match="the mean of encoder layer 1 is not a finite number"):
        head_means(model, [batch])
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.value.bias[3] = (
            build("bert").bert.encoder.layer[1].attention.self.value.bias[3]
        )
    assert hooks(model) == before
    assert apart(whole, answers(model)) == 0


def test_a_part_that_no_batch_has_run_has_no_means():
    means = HeadMeans(values={}, kept={("encoder", 0): (0,)}, tokens={})
    attention = discover(build("bert")).attentions[0]
    with pytest.raises(HeadError, match="encoder layer 0 has no means"):
        means.of(attention)
