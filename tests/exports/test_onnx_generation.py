"""ONNX folders generate the same greedy tokens as the pruned model, under onnxruntime and genai."""

import importlib
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

from deadhead.errors import UnsupportedModel
from deadhead.exports import export
from deadhead.exports.onnx.cached import _Encoder, cached_graphs
from deadhead.heads import discover, gated, head_means, load, prune, save
from deadhead.layout import Head
from slow import slow_but
from tiny_models import build, with_random_vectors

torch.set_num_threads(1)
TOKENS = 10  # that are generated
PROMPTS = [[5, 9, 33], [61, 8, 47, 14, 5, 90], [7]]
SIZES: dict[str, Any] = {
    "vocab_size": 99,
    "initializer_range": 0.4,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
QWEN3 = {
    **SIZES,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
BART = {
    **SIZES,
    "d_model": 32,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
    "encoder_layers": 1,
    "decoder_layers": 2,
    **{f"{part}_attention_heads": 4 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 24 for part in ("encoder", "decoder")},
    "initializer_range": 0.1,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,  # or it repeats one token
}
T5 = {
    **{name: value for name, value in SIZES.items() if name != "initializer_range"},
    "decoder_start_token_id": 0,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 1,
    "num_heads": 4,
    "initializer_factor": 6.0,
    "tie_word_embeddings": False,
}
GPT2 = {**SIZES, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "qwen3": ("Qwen3ForCausalLM", QWEN3),  # all that a Llama has, and norms of its heads
    "bart": ("BartForConditionalGeneration", BART),
    "t5": ("T5ForConditionalGeneration", T5),
}


class Case(NamedTuple):
    whole: Any
    small: Any
    model: Path
    folder: Path


def built(family):
    name, settings = MODELS[family]
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**settings)).eval()
    return with_random_vectors(model)


# heads that each attention loses; GPT-2 and BART have attention with none left
REMOVED: dict[str, dict[tuple[str, int], range | list[int]]] = {
    "gpt2": {("decoder", 0): range(4), ("decoder", 1): [1]},
    # both heads of a key/value head; then one head, so that the others get copies of their keys
    "qwen3": {("decoder", 0): [0, 1], ("decoder", 1): [0]},
    "bart": {
        ("encoder", 0): range(4),
        ("decoder", 0): range(4),
        ("decoder", 1): [0],
        ("cross", 0): [0],
        ("cross", 1): range(4),
    },
    "t5": {(block, 0): [0] for block in ("encoder", "decoder", "cross")},
}


def removed(model):
    """What the model loses, and the means in its place, as arguments of `gated`."""
    batch = {"input_ids": torch.arange(3, 93).view(3, 30)}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = batch["input_ids"].flip(0)
    layers = discover(model, neurons=True).feed_forwards
    neurons = {(layer.block, layer.layer): range(5) for layer in layers}
    if not model.config.is_encoder_decoder:
        neurons["decoder", 0] = range(layers[0].size)
    places = REMOVED[model.config.model_type].items()
    return {
        "closed": [Head(*place, number) for place, numbers in places for number in numbers],
        "neurons": neurons,
        "fill": head_means(model, [batch], neurons=True),
    }


def smaller(model):
    """The model with fewer heads and neurons, and means in their place."""
    units = removed(model)
    heads = units.pop("closed")
    return prune(model, heads, **units, groups="expand")


@pytest.fixture(scope="module", params=slow_but("gpt2", MODELS))
def case(request, tmp_path_factory, quick_exporter):
    place = tmp_path_factory.mktemp(request.param)
    save(smaller(built(request.param)), place / "model")
    folder = export(place / "model", onnx=place / "onnx")
    return Case(built(request.param), load(place / "model").eval(), place / "model", folder)


def padded(rows):
    """The rows as one batch, padded on the left, and its mask."""
    length = max(map(len, rows))
    ids = np.array([[0] * (length - len(row)) + row for row in rows])
    mask = np.array([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def generated(folder, rows):
    """The logits of each new token, row x token x word: the greedy loop of docs/serving.md."""
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    caches = [i for i in session.get_inputs() if i.name.startswith("past_key_values.")]
    ids, mask = padded(rows)
    past = {c.name: np.zeros((len(ids), c.shape[1], 0, c.shape[3]), np.float32) for c in caches}
    step, scores = ids, []
    for _ in range(TOKENS):
        positions = (mask.cumsum(1) - 1).clip(0)[:, -step.shape[1] :]
        inputs = {"input_ids": step, "attention_mask": mask, "position_ids": positions}
        logits, *present = session.run(None, {**inputs, **past})
        scores.append(logits[:, -1:])
        step, past = scores[-1].argmax(-1), dict(zip(past, present, strict=True))
        ids, mask = np.hstack([ids, step]), np.hstack([mask, np.ones_like(step)])
    return np.hstack(scores)


def translated(folder, rows):
    """The same for the two graphs of an encoder-decoder."""
    encoder = onnxruntime.InferenceSession(folder / "encoder_model.onnx")
    decoder = onnxruntime.InferenceSession(folder / "decoder_model.onnx")
    ids, mask = padded(rows)
    for number, row in enumerate(rows):  # an encoder numbers positions from the left
        ids[number], mask[number] = (np.roll(t[number], len(row)) for t in (ids, mask))
    _, *cross = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
    names = [i.name for i in decoder.get_inputs()]
    fixed = dict(zip([n for n in names if ".encoder." in n], cross, strict=True))
    fixed["encoder_attention_mask"] = mask
    past = {
        i.name: np.zeros((len(ids), i.shape[1], 0, i.shape[3]), np.float32)
        for i in decoder.get_inputs()
        if ".decoder." in i.name
    }
    step, scores = np.zeros((len(ids), 1), np.int64), []
    for _ in range(TOKENS):
        logits, *present = decoder.run(None, {"input_ids": step, **fixed, **past})
        scores.append(logits[:, -1:])
        step, past = scores[-1].argmax(-1), dict(zip(past, present, strict=True))
    return np.hstack(scores)


def scores_of(case, rows):
    is_encoder_decoder = case.small.config.is_encoder_decoder
    return (translated if is_encoder_decoder else generated)(case.folder, rows)


def expected(model, rows):
    ids, mask = map(torch.from_numpy, padded(rows))
    answer = model.generate(ids, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False)
    return answer[:, -TOKENS:].tolist()


def test_greedy_tokens(case):
    alone = [scores_of(case, [row])[0].argmax(-1).tolist() for row in PROMPTS]
    assert alone == [expected(case.small, [row])[0] for row in PROMPTS]
    assert alone != [expected(case.whole, [row])[0] for row in PROMPTS]
    assert len({token for row in alone for token in row}) > 1
    assert scores_of(case, PROMPTS).argmax(-1).tolist() == alone


def gated_scores(case, row, **closed):
    """The logits of the first new token, of the whole model with gates."""
    batch = {"input_ids": torch.tensor([row])}
    if case.small.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.tensor([[0]])
    with torch.no_grad(), gated(case.whole, **closed):
        logits: torch.Tensor = case.whole(**batch).logits[0, -1]
    return logits


def test_the_graph_has_the_heads_that_are_left_and_means_in_biases(case):
    units, row = removed(case.whole), PROMPTS[1]
    scores = torch.from_numpy(scores_of(case, [row])[0, 0])
    largest = scores.abs().max()
    assert (scores - gated_scores(case, row, **units)).abs().max() < 1e-4 * largest
    others = ({"fill": "zero"}, {"closed": units["closed"][:-1]}, {"closed": units["closed"][1:]})
    for other in others:
        assert (scores - gated_scores(case, row, **units | other)).abs().max() > 1e-3 * largest


def test_each_layer_has_the_cache_it_needs(case):
    """A layer without heads has none, and the others have as many heads as are left."""
    name = "decoder_model" if case.small.config.is_encoder_decoder else "model"
    session = onnxruntime.InferenceSession(case.folder / f"{name}.onnx")
    shapes = [(i.name, i.shape[1]) for i in session.get_inputs() if i.name.startswith("past_")]
    places = [".decoder", ".encoder"] if case.small.config.is_encoder_decoder else [""]
    left = {
        "gpt2": [{1: 3}],
        "qwen3": [{0: 1, 1: 3}],
        "bart": [{1: 3}, {0: 3}],
        "t5": [{0: 4}, {0: 4}],  # zeros for each removed head: its position biases
    }[case.small.config.model_type]
    assert shapes == [
        (f"past_key_values.{layer}{place}.{kind}", count)
        for place, layers in zip(places, left, strict=True)
        for layer, count in layers.items()
        for kind in ("key", "value")
    ]


def test_genai(case):
    if case.small.config.is_encoder_decoder:
        assert not (case.folder / "genai_config.json").exists()
        return
    import onnxruntime_genai as genai

    model = genai.Model(str(case.folder))
    for row in PROMPTS:
        params = genai.GeneratorParams(model)
        params.set_search_options(max_length=len(row) + TOKENS)
        generator = genai.Generator(model, params)
        generator.append_tokens(np.array([row], np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        assert [*generator.get_sequence(0)][len(row) :] == expected(case.small, [row])[0]


def rounding(before, after):
    """The largest error of a weight in int8, in steps of its scale."""
    import onnx
    from onnx.numpy_helper import to_array

    full, small = (
        {tensor.name: to_array(tensor) for tensor in onnx.load(file).graph.initializer}
        for file in (before, after)
    )
    errors = []
    for name in small:
        if name.endswith("_quantized"):
            origin = name.removesuffix("_quantized")
            scale, zero = small[f"{origin}_scale"], small[f"{origin}_zero_point"]
            steps = (full[origin] / scale) - (small[name].astype("float32") - zero)
            errors.append(float(abs(steps).max()))
    assert errors
    return max(errors)


def test_int8(case, tmp_path, monkeypatch):
    exporting = importlib.import_module("deadhead.exports.onnx.export")

    def copied(graph, file):  # rather than traced again
        shutil.copyfile(case.folder / graph.name, file)

    monkeypatch.setattr(exporting, "write", copied)
    result = exporting.exported(case.model, onnx=tmp_path / "int8", int8=True)
    before, after = (
        {path.name: path.stat().st_size for path in folder.iterdir()}
        for folder in (case.folder, tmp_path / "int8")
    )
    assert before.keys() == after.keys()
    graphs = [name for name in before if name.endswith(".onnx")]
    assert result.size == sum(after[name] for name in graphs)
    assert result.size < 0.9 * sum(before[name] for name in graphs)
    assert result.gap < 1e-5
    assert result.int8_gap > 1e-4  # how much more depends on the kernels of the processor
    for name in graphs:
        assert rounding(case.folder / name, tmp_path / "int8" / name) <= 0.5 + 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["int8"]


def test_a_decoder_without_self_attention_keeps_the_length_of_the_past():
    model = built("bart")
    every = [h for a in discover(model).attentions if a.block == "decoder" for h in a.heads]
    _, graph = cached_graphs(prune(model, every))
    caches = {n: tuple(t.shape) for n, t in graph.inputs.items() if ".decoder." in n}
    names = [f"past_key_values.0.decoder.{kind}" for kind in ("key", "value")]
    assert caches == dict.fromkeys(names, (2, 1, 4, 1))


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_an_encoder_runs_without_the_decoder(family):
    """Keys and values of cross-attention are the same as in a run of the whole model."""
    model = smaller(built(family))
    encoder = cached_graphs(model)[0].module
    ids = torch.tensor([[5, 9, 33, 61, 8, 4], [47, 14, 5, 90, 0, 0]])
    with torch.no_grad():
        expected = _Encoder(model, encoder.cross, [])(ids, (ids > 0).long())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model.get_decoder(), "forward", None)
            answer = encoder(ids, (ids > 0).long())
    assert len(answer) == 3  # states of the encoder, keys and values of the layer with heads
    assert all(torch.equal(*pair) for pair in zip(answer, expected, strict=True))


def test_an_encoder_whose_keys_are_laid_out_otherwise_runs_with_the_decoder():
    encoder = cached_graphs(build("fsmt").float())[0].module  # length x batch x width
    assert encoder.projections == []
    ids = torch.tensor([[5, 9, 33, 61], [8, 47, 14, 7], [90, 3, 4, 6]])
    with torch.no_grad():
        _, *tensors = encoder(ids, torch.ones_like(ids))
    shapes = [(3, heads, 4, width) for pair in encoder.cross.values() for heads, width in pair]
    assert [tuple(tensor.shape) for tensor in tensors] == shapes


def test_other_states_than_keys_are_refused():
    config = transformers.MambaConfig(
        vocab_size=99, hidden_size=16, num_hidden_layers=1, state_size=4
    )
    with pytest.raises(UnsupportedModel, match="caches other things than keys"):
        cached_graphs(transformers.MambaForCausalLM(config))
