"""Estimated edges against edges that are patched exactly, and these against whole runs."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from transformers import T5EncoderModel, UMT5EncoderModel

from architectures.tiny import tiny
from deadhead import edge_effects, path_effects, prune
from deadhead.effects import Edge, EdgeEffects, edges
from deadhead.effects.paths import edge_runs
from deadhead.effects.stream import Nodes
from deadhead.errors import DataError, UnknownName, UnsupportedModel
from deadhead.forward import forward
from deadhead.rankers.batches import check_pairs
from deadhead.verify.inputs import batch_for
from near_pairs import difference, near_pair
from tiny_models import build_class

# norms before the layers, grouped heads, norms behind them, both blocks, both in parallel, and
# embeddings that are one tensor for all examples
FAMILIES = ["gpt2", "qwen3", "bert", "bart", "gpt_neox", "xlm"]
SHARED = ["albert"]  # one layer's weights used twice


def errors(family, distance):
    """How far the estimates of some edges of every kind are from exact effects."""
    model, clean, corrupt = near_pair(family, distance)
    estimated = edge_effects(model, clean, corrupt, difference, progress=False)
    kinds = {}
    for edge in estimated.highest(len(estimated)):
        source, target = (name.rpartition(".")[2] for name in edge)
        kinds.setdefault(("head" if source.isdecimal() else source, target), edge)
    edges = [*kinds.values()]
    exact = path_effects(model, clean, corrupt, difference, edges, progress=False)
    gaps = [abs(estimated[edge] - exact[edge]) for edge in edges]
    assert {edge.target.rpartition(".")[2] for edge in edges} == {*"qkv", "neurons", "output"}
    return max(gaps) / max(abs(exact[edge]) for edge in edges)


@pytest.mark.parametrize("family", FAMILIES)
def test_estimates_become_exact_as_the_runs_approach_each_other(family):
    near, far = errors(family, 1e-4), errors(family, 1e-2)
    assert near < 0.01
    assert far > 5 * near  # an effect that is left out would not shrink with the distance


def circuits(family):
    model, clean, corrupt = near_pair(family, 1.0)
    return edge_runs(Nodes(model), check_pairs(clean, corrupt), difference), model, clean, corrupt


@pytest.mark.parametrize("family", [*FAMILIES, *SHARED])
@torch.no_grad()
def test_all_edges_patched_give_the_corrupt_run_and_none_the_clean_one(family):
    opened, model, clean, corrupt = circuits(family)
    with opened as runs:
        every, half = runs(runs.exists), runs.exists.clone()
        half[::2, ::2] = half[1::2, 1::2] = False
        assert (every - difference(forward(model, corrupt), corrupt)).abs().max() < 1e-10
        assert (runs.clean - difference(forward(model, clean), clean)).abs().max() < 1e-10
        for values in (every, runs(half)):
            assert (values - runs.clean).abs().max() > 1e-4
        assert (runs(half) - every).abs().max() > 1e-4


@torch.no_grad()
def test_a_patched_edge_is_what_hooks_by_hand_give():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    first, last = model.transformer.h[0], model.transformer.h[-1]
    width = model.config.n_embd // model.config.n_head
    contexts, added, normed = [], [], []
    for batch in (clean, corrupt):
        hook = first.attn.c_proj.register_forward_pre_hook(lambda m, a: contexts.append(a[0]))
        forward(model, batch)
        hook.remove()
    head = slice(width, 2 * width)  # number 1
    change = (contexts[1] - contexts[0])[..., head] @ first.attn.c_proj.weight[head]
    hook = last.ln_1.register_forward_pre_hook(lambda m, a: added.append(a[0] + change))
    forward(model, clean)
    hook.remove()
    normed.append(last.ln_1(added[0]))

    def patch(module, args, output):
        patched, rows = output.clone(), slice(0, width)  # the queries of head 0
        patched[..., rows] = (normed[0] @ module.weight + module.bias)[..., rows]
        return patched

    before = difference(forward(model, clean), clean).mean()
    hook = last.attn.c_attn.register_forward_hook(patch)
    expected = difference(forward(model, clean), clean).mean() - before
    hook.remove()
    layer = len(model.transformer.h) - 1
    edge = Edge("decoder.0.1", f"decoder.{layer}.0.q")
    got = path_effects(model, clean, corrupt, difference, [edge], progress=False)[edge]
    assert abs(got - expected) < 1e-10 < abs(expected)


def test_steps_are_the_mean_of_gradients_between_both_runs():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    effects = edge_effects(model, clean, corrupt, difference, steps=3, progress=False)
    table, stream = model.transformer.wte, []
    ends = [table(batch["input_ids"]).detach() for batch in (clean, corrupt)]
    hook = model.transformer.ln_f.register_forward_pre_hook(lambda m, a: stream.append(a[0]))
    total = 0.0
    for share in (1 / 3, 2 / 3, 1):
        embeddings = (share * ends[0] + (1 - share) * ends[1]).requires_grad_()
        batch = {"inputs_embeds": embeddings, "attention_mask": clean["attention_mask"]}
        values = difference(forward(model, batch), clean)
        (gradient,) = torch.autograd.grad(values.sum(), stream[-1])
        total += float(((ends[1] - ends[0]) * gradient).sum()) / 3 / len(values)
    hook.remove()
    assert abs(effects["decoder.input -> output"] - total) < 1e-10
    once = edge_effects(model, clean, corrupt, difference, progress=False)
    assert abs(once["decoder.input -> output"] - total) > 1e-6


def test_a_step_frees_the_run_of_the_step_before(monkeypatch):
    runs = []

    class Counted(edges._Gradients):
        def __init__(self, *args):
            assert [run for run in runs if run() is not None] == []
            super().__init__(*args)
            runs.append(weakref.ref(self))

    monkeypatch.setattr(edges, "_Gradients", Counted)
    model, clean, corrupt = near_pair("gpt2", 1.0)
    gc.disable()
    try:
        edge_effects(model, clean, corrupt, difference, steps=3, progress=False)
    finally:
        gc.enable()
    assert len(runs) == 3


@pytest.mark.parametrize("family", ["bert", "gemma2"])
def test_one_step_of_a_straight_way_is_another_half_way(family):
    """Steps repeat the run with the same changes, which each step uses up."""
    model, clean, corrupt = near_pair(family, 1e-4)
    once, twice = (
        edge_effects(model, clean, corrupt, difference, steps=steps, progress=False).matrix
        for steps in (1, 2)
    )
    assert np.nanmax(abs(once - twice)) < 0.01 * np.nanmax(abs(once))


def test_batches_add_up_and_leave_the_model_as_it_was():
    model, clean, corrupt = near_pair("bart", 1.0)
    before = copy.deepcopy(model.state_dict())
    whole = edge_effects(model, clean, corrupt, difference, progress=False)
    rows = [
        [{name: value[n : n + 1] for name, value in batch.items()} for n in range(2)]
        for batch in (clean, corrupt)
    ]
    parts = edge_effects(model, *rows, difference, progress=False)
    assert np.nanmax(abs(whole.matrix - parts.matrix)) < 1e-10 < np.nanmax(abs(whole.matrix))
    assert parts.examples == whole.examples == 2
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
    assert hooks == []
    assert all(p.requires_grad for p in model.parameters())


def test_heads_that_share_keys_have_one_target_for_them():
    model, clean, corrupt = near_pair("llama", 1.0)
    heads, keys = model.config.num_attention_heads, model.config.num_key_value_heads
    assert 1 < keys < heads
    effects = edge_effects(model, clean, corrupt, difference, progress=False)
    first = [name for name in effects.targets if name.startswith("decoder.0.")]
    assert first[:heads] == [f"decoder.0.{n}.q" for n in range(heads)]
    group = heads // keys
    shared = [f"decoder.0.{n}-{n + group - 1}.k" for n in range(0, heads, group)]
    assert first[heads : heads + keys] == shared
    layers, targets = model.config.num_hidden_layers, heads + 2 * keys
    edges = sum(
        targets * (1 + n * (heads + 1)) + (1 + n * (heads + 1) + heads) for n in range(layers)
    )
    assert len(effects) == edges + 1 + layers * (heads + 1)


def test_a_pruned_model_keeps_the_numbers_of_its_heads():
    model, clean, corrupt = near_pair("bert", 1.0)
    prune(model, ["encoder.0.1"])
    effects = edge_effects(model, clean, corrupt, difference, progress=False)
    assert "encoder.0.1" not in effects.sources
    assert "encoder.0.2.q" in effects.targets
    with pytest.raises(UnknownName, match=r"encoder\.0\.1"):
        path_effects(model, clean, corrupt, difference, ["encoder.0.1 -> output"])


def test_effects_are_saved_listed_and_drawn(tmp_path):
    model, clean, corrupt = near_pair("gpt2", 1.0)
    effects = edge_effects(model, clean, corrupt, difference, progress=False)
    again = EdgeEffects.load(effects.save(tmp_path / "edges.json"))
    assert np.array_equal(again.matrix, effects.matrix, equal_nan=True)
    assert again.highest(5) == effects.highest(5)
    with pytest.raises(DataError, match="`count` expects a number of edges from 0, got -1"):
        again.highest(-1)
    assert again.title == effects.title
    frame = effects.frame()
    assert len(frame) == len(effects)
    assert (frame["effect"].abs().diff().dropna() <= 0).all()
    (edge, value), *_ = effects.highest(1).items()
    assert effects[edge] == effects[str(edge)] == effects[tuple(edge)] == value
    signed = [*effects.highest(len(effects), absolute=False).values()]
    assert signed == sorted(signed)
    drawn = effects.plot().to_dict()
    lines, nodes = (drawn["datasets"][drawn["layer"][n]["data"]["name"]] for n in (0, 1))
    widths = [line["width"] for line in lines]
    assert len(lines) == 40
    assert widths == sorted(widths, reverse=True)
    assert drawn["width"] < 360
    assert all(0 <= node["x"] <= 1 for node in nodes)
    with pytest.raises(DataError, match="1 to 40"):
        effects.plot(41)
    (tmp_path / "other.json").write_text("[]")
    for path in (tmp_path / "other.json", tmp_path / "missing.json", tmp_path):
        with pytest.raises(DataError, match="edge"):
            EdgeEffects.load(path)


def test_bad_input_gets_an_error_that_names_the_way_out():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    shorter = {name: value[:, 1:] for name, value in corrupt.items()}
    with pytest.raises(DataError, match="shape"):
        edge_effects(model, clean, shorter, difference)
    with pytest.raises(DataError, match="gave a tensor"):
        edge_effects(model, clean, corrupt, lambda outputs, batch: outputs.logits.mean())
    with pytest.raises(UnsupportedModel, match="gradient"):
        edge_effects(model, clean, corrupt, lambda o, b: difference(o, b).detach())
    with pytest.raises(DataError, match="steps"):
        edge_effects(model, clean, corrupt, difference, steps=0)
    with pytest.raises(DataError, match="before the source"):
        path_effects(model, clean, corrupt, difference, ["decoder.1.0 -> decoder.0.0.q"])
    with pytest.raises(DataError, match="expected an edge"):
        path_effects(model, clean, corrupt, difference, ["decoder.1.0"])
    with pytest.raises(DataError, match="no edge"):
        path_effects(model, clean, corrupt, difference, [])
    for nothing in (None, 3, ["decoder.0.0", "output"], [("decoder.0.0", "output", 1)]):
        with pytest.raises(DataError, match="expected an edge"):
            path_effects(model, clean, corrupt, difference, nothing)
    embeddings = model.transformer.wte(clean["input_ids"]).detach()
    with pytest.raises(UnsupportedModel) as problem:
        edge_effects(
            model, {"inputs_embeds": embeddings}, {"inputs_embeds": embeddings}, difference
        )
    assert "input_ids" in problem.value.hint


@pytest.mark.parametrize(
    ("family", "why"), [("mixtral", "mixture of experts"), ("xlnet", "output projection")]
)
def test_a_model_whose_stream_is_unknown_is_refused(family, why):
    model = tiny(family)
    batch = batch_for(model)
    with pytest.raises(UnsupportedModel, match=why) as problem:
        edge_effects(model, batch, batch, difference)
    assert "patch_effects" in problem.value.hint


@pytest.mark.parametrize("kind", [T5EncoderModel, UMT5EncoderModel])
def test_an_encoder_of_two_texts_alone_has_one_input(kind):
    """Its table is not the one that the model names, or its config says that it has a decoder."""
    model = build_class(kind)
    clean = {"input_ids": torch.arange(5, 15)[None]}
    corrupt = {"input_ids": clean["input_ids"].flip(1)}
    effects = edge_effects(model, clean, corrupt, difference, progress=False)
    assert effects.sources[0] == "encoder.input"
    assert "decoder.input" not in effects.sources
    assert max(abs(value) for value in effects.highest(1).values()) > 1e-4


def test_a_compiled_model_is_refused():
    model = tiny("gpt2")
    batch = batch_for(model)
    model.transformer.h[0]._compiled_call_impl = print  # as after module.compile()
    with pytest.raises(UnsupportedModel, match="compiled"):
        edge_effects(model, batch, batch, difference)


def test_edges_are_read_as_they_are_printed():
    edge = Edge("encoder.0.3", "encoder.2.1.q")
    assert Edge.parse(str(edge)) == edge
    assert str(edge) == "encoder.0.3 -> encoder.2.1.q"
