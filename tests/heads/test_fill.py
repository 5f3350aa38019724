"""Fills: each kind of fill is the blend by hand, for every kind of model, gate, position and
padding.
"""

from collections.abc import Callable

import pytest
import torch
from fills_by_hand import changed, read

from deadhead import captured, discover, gated, head_means, prune
from deadhead.heads.fill import derangement
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, hooks, limit

FAMILIES = ["bert", "gpt2", "llama", "marian", "t5", "bart", "xlnet", "fsmt", "albert"]
Fills = Callable[[str, int, int, torch.Tensor], torch.Tensor]


def some_heads(model):
    """The first and the last head of each layer."""
    return [head for a in discover(model).attentions for head in (a.heads[0], a.heads[-1])]


def masks(batch, block):
    """The real tokens of a block, by hand."""
    if block in ("decoder", "cross") and "decoder_input_ids" in batch:
        ones = torch.ones_like(batch["decoder_input_ids"])
        return batch.get("decoder_attention_mask", ones).bool()
    return batch["attention_mask"].bool()


def blended(model, batch, gates, fill, at=None):
    """gate * head + (1 - gate) * fill, head by head, by hand."""

    def change(block, layer, use, rows):
        values, mixed = fill(block, layer, use, rows), rows.clone()
        kept = discover(model)[block, layer].kept
        for head, gate in gates.items():
            if (head.block, head.layer) == (block, layer):
                column = kept.index(head.index)
                mixed[:, :, column] = gate * rows[:, :, column] + (1 - gate) * values[:, :, column]
        if at is None or block not in at:
            return mixed
        return torch.where(at[block][:, : rows.shape[1], None, None], mixed, rows)

    with changed(model, change):
        return answers(model, batch)


def resampled(batch, seed):
    """Each real token from the donor's real token of the same number, with loops."""

    def fill(block, layer, use, rows):
        mask, values = masks(batch, block), rows.clone()
        for example, donor in enumerate(derangement(len(rows), seed)):
            own = mask[example].nonzero().flatten().tolist()
            others = mask[donor].nonzero().flatten().tolist()
            for number, position in enumerate(own):
                values[example, position] = rows[donor, others[number % len(others)]]
        return values

    return fill


def other_batch(batch):
    """The same shapes and padding, other tokens."""
    return {n: v.roll(1, 1) if n.endswith("ids") else v for n, v in batch.items()}


def cases(model, batch, kind):
    """A fill for `gated`, and the same by hand."""
    if kind == "zero":
        return "zero", lambda block, layer, use, rows: torch.zeros_like(rows)
    if kind == "resample":
        return "resample", resampled(batch, 5)
    if kind == "captured":
        with captured(model) as clean:
            answers(model, other_batch(batch))
        runs = read(model, lambda: answers(model, other_batch(batch)))
        return clean, lambda block, layer, use, rows: runs[block, layer][use]
    means = head_means(quiet_fsmt(model), [batch])
    values = {place: value.to(model.dtype) for place, value in means.values.items()}
    return means, lambda block, layer, use, rows: values[block, layer].expand_as(rows)


def quiet_fsmt(model):
    """FSMT's own code overflows in double precision without a cache."""
    return build("fsmt").float() if model.config.model_type == "fsmt" else model


KINDS = ["zero", "means", "resample", "captured"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", slow_but("albert llama t5 xlnet", FAMILIES))
def test_a_fill_is_the_blend_by_hand(family, kind):
    model = build(family)
    batch, whole, before = batch_of(model), answers(model), hooks(model)
    fill, by_hand = cases(model, batch, kind)
    heads = some_heads(model)
    with gated(model, closed=heads, fill=fill, seed=5):
        filled = answers(model, batch)
    expected = blended(model, batch, dict.fromkeys(heads, 0.0), by_hand)
    assert apart(filled, expected) < limit(model)
    assert apart(filled, whole) > 1e-3
    with gated(model, closed=heads):
        assert apart(filled, answers(model, batch)) > 1e-3 or kind == "zero"  # it is not zero
    assert hooks(model) == before
    assert apart(whole, answers(model)) == 0
    at = {
        block: torch.zeros_like(masks(batch, block)).index_fill(1, torch.tensor([1, 4]), True)
        for block in discover(model).blocks
    }
    with gated(model, closed=heads, fill=fill, seed=5, positions={block: [1, 4] for block in at}):
        there = answers(model, batch)
    expected = blended(model, batch, dict.fromkeys(heads, 0.0), by_hand, at)
    assert apart(there, expected) < limit(model)
    assert apart(there, filled) > 1e-4
    assert apart(there, whole) > 1e-4
    assert hooks(model) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gpt2", "marian", "xlnet"])
def test_soft_gates_and_gates_of_each_example(family, kind):
    model = build(family)
    layout, batch = discover(model), batch_of(model)
    fill, by_hand = cases(model, batch, kind)
    draw = torch.Generator().manual_seed(3)
    soft = {
        b: torch.randn(2, layout.layers(b), layout.size(b), generator=draw).double()
        for b in layout.blocks
    }
    with gated(model, {b: g[0] for b, g in soft.items()}, fill=fill, seed=5):
        shared = answers(model, batch)
    numbers = {head: soft[head.block][0, head.layer, head.index] for head in layout}
    assert apart(shared, blended(model, batch, numbers, by_hand)) < 10 * limit(model)
    with gated(model, soft, fill=fill, seed=5):
        apiece = answers(model, batch)
    rows = {h: soft[h.block][:, h.layer, h.index].view(2, 1, 1) for h in layout}
    assert apart(apiece, blended(model, batch, rows, by_hand)) < 10 * limit(model)
    assert apart(shared, apiece) > 1e-3


@pytest.mark.parametrize("family", ["gpt2", "llama", "xlnet"])
def test_padding_on_the_left(family):
    """Real tokens are counted, not columns; the result is that of the same padding by hand."""
    model = build(family)
    batch = {name: value.clone() for name, value in batch_of(model).items()}
    for value in batch.values():
        value[1] = value[1].roll(3)
    heads = some_heads(model)
    for kind in ("means", "resample"):
        fill, by_hand = cases(model, batch, kind)
        with gated(model, closed=heads, fill=fill, seed=5):
            filled = answers(model, batch)
        expected = blended(model, batch, dict.fromkeys(heads, 0.0), by_hand)
        real = batch["attention_mask"].bool()
        assert (filled[0] - expected[0])[real].abs().max() < limit(model), kind
        assert (filled[0] - answers(model, batch)[0])[real].abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["means", "captured"])
def test_a_fill_of_the_whole_model_serves_a_pruned_one(kind):
    model = build("llama", num_key_value_heads=2)
    batch = batch_of(model)
    fill, of_whole = cases(model, batch, kind)
    prune(model, ["decoder.0.0", "decoder.0.2"])  # one of each group

    def by_hand(block, layer, use, rows):
        kept = list(discover(model)[block, layer].kept)
        whole = of_whole(block, layer, use, rows.new_zeros(*rows.shape[:2], 4, 8))
        return whole[:, :, kept]

    gates = {head: 0.0 for head in discover(model) if head.index == 3}
    with gated(model, closed=list(gates), fill=fill):
        filled = answers(model, batch)
    assert apart(filled, blended(model, batch, gates, by_hand)) < 1e-6
    assert apart(filled, answers(model, batch)) > 1e-3


def test_patching_every_head_gives_the_clean_run():
    model = build("gpt2")
    embedded = {"inputs_embeds": torch.randn(2, 12, 32).double()}
    with captured(model) as clean:
        (expected,) = answers(model, embedded)
    # only attention takes what is at position 0 elsewhere
    other = {"inputs_embeds": embedded["inputs_embeds"].clone()}
    other["inputs_embeds"][:, 0] *= -2
    with gated(model, closed=list(discover(model)), fill=clean):
        (patched,) = answers(model, other)
    assert (patched - expected)[:, 1:].abs().max() < 1e-12
    assert (answers(model, other)[0] - expected)[:, 1:].abs().max() > 1e-2
    assert set(clean.values) == {("decoder", 0), ("decoder", 1)}
    with captured(model, ["decoder.1.0"]) as part:
        answers(model)
    assert set(part.values) == {("decoder", 1)}
    assert not part.values["decoder", 1][0].requires_grad


def test_the_seed_chooses_donors_without_a_fixed_point():
    draws = {tuple(derangement(7, seed)) for seed in range(20)}
    assert len(draws) > 15
    assert all(sorted(draw) == list(range(7)) for draw in draws)
    assert all(donor != example for draw in draws for example, donor in enumerate(draw))
    model = build("gpt2")
    batch = {"input_ids": torch.randint(3, 90, (5, 6), generator=torch.Generator().manual_seed(0))}
    results = []
    for seed in (0, 0, 1):
        with gated(model, closed=some_heads(model), fill="resample", seed=seed):
            results.append(answers(model, batch))
    assert apart(results[0], results[1]) == 0
    assert apart(results[0], results[2]) > 1e-3


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_nested_blocks_fill_one_after_the_other(family):
    model = build(family)
    batch, heads, before = batch_of(model), some_heads(model), hooks(model)
    means, _ = cases(model, batch, "means")
    clean, _ = cases(model, batch, "captured")
    with gated(model, closed=heads, fill=clean):
        patched = answers(model, batch)
    with gated(model, closed=heads, fill=means), gated(model, closed=heads, fill=clean):
        assert apart(answers(model, batch), patched) == 0  # the innermost closed gate remains
    with gated(model, closed=heads, fill=clean), gated(model, closed=heads, fill=means):
        assert apart(answers(model, batch), patched) > 1e-3
    half = torch.full((2, 4), 0.5, dtype=torch.float64)
    for fill in ("zero", means):
        with gated(model, half, fill=fill), gated(model, half, fill=fill):
            twice = answers(model, batch)
        with gated(model, half * half, fill=fill):
            assert apart(twice, answers(model, batch)) < 1e-12
        with gated(model, half, fill=fill):
            assert apart(twice, answers(model, batch)) > 1e-3
    with gated(model, closed=heads), captured(model) as zeros:
        answers(model, batch)
    assert not zeros.values["encoder", 0][0][..., :8].any()
    assert hooks(model) == before
