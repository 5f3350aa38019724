"""A model without whole layers is one whose layers give what they get, and an ordinary one."""

import copy
import json

import pytest
import torch

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.heads import discover, load, prune, save
from deadhead.heads.depth import remove_layers, stacks_of
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, limit, refused

# the windows are shorter than the texts, so that a layer of another kind gives other answers
SLIDING = {"num_hidden_layers": 4, "sliding_window": 6}
DEEP: dict[str, dict[str, object]] = {
    "bert": {},
    "mpnet": {},
    "qwen2": {**SLIDING, "use_sliding_window": True, "max_window_layers": 2, "layer_types": None},
    "cohere2": SLIDING,
    "llama": {},
    "smollm3": {},
    "gpt2": {},
    "gpt_neo": {},
    "t5": {},
    "marian": {},
    "bart": {},
    "whisper": {},
    "beit": {"drop_path_rate": 0.1},
    "dinov2": {},
    "clip": {},
}


def skipped(model, keys):
    """The answers of a model whose layers give what they get."""
    handles = []
    for stack in stacks_of(model).values():
        for key, layer in zip(stack.keys, stack.layers, strict=True):
            if key in keys:
                handles.append(layer.register_forward_hook(_same, with_kwargs=True))
    try:
        return answers(model)
    finally:
        for handle in handles:
            handle.remove()


def _same(layer, args, kwargs, output):
    hidden = args[0] if args else kwargs["hidden_states"]
    return hidden if isinstance(output, torch.Tensor) else (hidden, *output[1:])


@pytest.mark.parametrize("family", slow_but("bert mpnet qwen2 llama t5 marian", DEEP))
def test_removed_is_skipped_is_reloaded(family, tmp_path):
    whole = build(family, **DEEP[family])
    for stack in stacks_of(whole).values():
        for key in stack.keys:
            model = copy.deepcopy(whole)
            expected = skipped(model, [key])
            assert apart(expected, answers(whole)) > 1e-3
            assert remove_layers(model, [key]) is model
            assert apart(expected, answers(model)) < limit(model)
            if key[1] == 0:
                _check_reloaded(model, expected, tmp_path / stack.block)
    assert apart(answers(build(family, **DEEP[family])), answers(whole)) == 0


def _check_reloaded(model, expected, folder):
    save(model, folder)
    stored = json.loads((folder / "config.json").read_text())
    assert "deadhead" not in stored
    assert "fusion_config" not in stored
    ordinary = type(model).from_pretrained(folder).to(model.dtype).eval()
    for again in (ordinary, load(folder).eval()):
        assert apart(expected, answers(again)) < limit(model)
        assert again.num_parameters() == model.num_parameters()


def test_generation_with_a_cache_is_that_without():
    model = build("llama", num_hidden_layers=4)
    remove_layers(model, [1, 2])
    ids = batch_of(model)["input_ids"][:1]
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with_cache = model.generate(ids, use_cache=True, **options)
    assert with_cache.tolist() == model.generate(ids, use_cache=False, **options).tolist()
    assert [layer.self_attn.layer_idx for layer in model.model.layers] == [0, 1]


def test_layers_before_and_after_heads(tmp_path):
    first, second = (build("bert", num_hidden_layers=3) for _ in range(2))
    remove_layers(prune(first, ["encoder.2.0"]), [1])
    prune(remove_layers(second, [1]), ["encoder.1.0"])
    assert apart(answers(first), answers(second)) < limit(first)
    assert first.config.deadhead == second.config.deadhead
    again = load(save(first, tmp_path / "model")).eval()
    assert apart(answers(first), answers(again)) < limit(first)
    assert discover(again) == discover(second)


def test_the_config_of_another_model_stays():
    model, other = build("smollm3", num_hidden_layers=3), build("smollm3", num_hidden_layers=3)
    other.config = model.config
    before = model.config.to_dict()
    remove_layers(model, ["decoder.1"])
    assert other.config.to_dict() == before
    assert model.config.num_hidden_layers == 2
    assert len(model.config.layer_types) == len(model.config.no_rope_layers) == 2


@pytest.mark.parametrize(
    ("layers", "slide", "first"), [([0], 2, 1), ([2, 3], 0, 2), ([1, 3], 1, 1)]
)
def test_kinds_of_layers_and_the_number_of_the_first_ones_follow(layers, slide, first, tmp_path):
    """Readers other than transformers take them from the file, such as vLLM."""
    model = remove_layers(build("qwen2", **DEEP["qwen2"]), layers)
    config = json.loads((save(model, tmp_path / "model") / "config.json").read_text())
    kinds = ["full_attention"] * first + ["sliding_attention"] * slide
    assert (config["layer_types"], config["max_window_layers"]) == (kinds, first)
    assert config["num_hidden_layers"] == len(kinds)


def test_settings_of_single_layers_follow(tmp_path):
    model = build("gemma4_unified_text", num_hidden_layers=4)
    widths = [layer.self_attn.head_dim for layer in model.model.layers]
    assert widths[0] != widths[1]
    save(remove_layers(model, [0]), tmp_path / "model")
    stored = json.loads((tmp_path / "model" / "config.json").read_text())["per_layer_config"]
    assert {n: one["head_dim"] for n, one in stored.items()} == {"0": widths[1], "2": widths[3]}


def test_outputs_of_a_backbone_follow():
    model = remove_layers(build("dinov2", num_hidden_layers=4, out_indices=(1, 4)), [1, 2])
    assert model.config.stage_names == ["stem", "stage1", "stage2"]
    assert (model.config.out_features, model.config.out_indices) == (["stage1", "stage2"], [1, 2])


@pytest.mark.parametrize(
    ("family", "layers", "kind", "text"),
    [
        ("bert", [0, 1], HeadError, "got all 2"),
        ("bert", [2], HeadError, "got 2"),
        ("bert", ["decoder.1"], HeadError, "got 'decoder.1'"),
        ("t5", [1], HeadError, "encoder.0 to encoder.1 and decoder.0 to decoder.1"),
        ("albert", [0], UnsupportedModel, "share weights"),
        ("xlm", [0], UnsupportedModel, "one list of layers"),
    ],
)
def test_refusals(family, layers, kind, text):
    model = build(family)
    with refused(model, kind, text):
        remove_layers(model, layers)


def test_layers_that_no_config_describes():
    """Every second layer of this model is a mixture of experts: the next one cannot move up."""
    model = build("qwen2_moe", decoder_sparse_step=2, num_hidden_layers=4)
    with pytest.raises(UnsupportedModel, match="no config of Qwen2MoeForCausalLM describes it"):
        remove_layers(model, [0])
    model = build("gpt2", scale_attn_by_inverse_layer_idx=True)
    with refused(model, UnsupportedModel, "scale_attn_by_inverse_layer_idx"):
        remove_layers(model, [0])
