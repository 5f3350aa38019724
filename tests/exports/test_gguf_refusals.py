"""What GGUF cannot hold is refused with the reason, before anything is written."""

import pytest
import torch
import transformers

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.exports import export
from deadhead.exports.gguf.decoder import read
from deadhead.exports.gguf.plan import plan
from deadhead.heads import prune, save
from gguf_models import MORE, SIZES, build, byte_tokenizer
from tiny_models import build as build_family
from tiny_models import build_class

DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}


def model_of(name, **settings):
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    return model_class(model_class.config_class(**{**SIZES, **settings})).eval()


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("MistralForCausalLM", {"sliding_window": 16}, "a window of 16"),
        ("LlamaForCausalLM", {"hidden_act": "gelu"}, "activation silu only, got 'gelu'"),
        ("GPT2LMHeadModel", {}, "activation silu only, got 'gelu_new'"),
        ("LlamaForCausalLM", {"rope_parameters": DYNAMIC}, r"\(dynamic\) change with the length"),
        ("LlamaModel", {}, "a language model that continues text, got LlamaModel"),
        ("LlamaForSequenceClassification", {}, "got LlamaForSequenceClassification"),
        ("Gemma2ForCausalLM", {}, "sliding window|softcapping"),
        ("Qwen3MoeForCausalLM", {"num_experts": 4}, "mixture of experts"),
        ("Olmo2ForCausalLM", {}, "norm over all heads at once"),
        ("GraniteForCausalLM", {"residual_multiplier": 0.3}, "it computes something else"),
        (
            "SmolLM3ForCausalLM",
            {"no_rope_layers": [1, 0, 1], "pad_token_id": 0},
            "it computes something else",
        ),
        ("GlmForCausalLM", {"pad_token_id": 0}, "."),
        ("GPTNeoXForCausalLM", {}, "."),
        ("BloomForCausalLM", {}, "does not have one set of rotary positions"),
    ],
)
def test_models_that_are_refused(name, settings, reason):
    with pytest.raises(UnsupportedModel, match=reason) as problem:
        read(model_of(name, **settings))
    assert problem.value.hint


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertModel", "BertForTokenClassification"])
def test_an_encoder_is_refused_as_such(name):
    with pytest.raises(UnsupportedModel, match=f"encoders cannot.*got {name}") as problem:
        read(build_class(getattr(transformers, name)))
    assert "--onnx" in str(problem.value.hint)


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5"])
def test_other_architectures(family):
    with pytest.raises(UnsupportedModel, match="GGUF"):
        read(build_family(family))


@pytest.mark.parametrize(
    ("name", "settings", "is_named"),
    [
        ("LlamaModel", {"tie_word_embeddings": True}, True),
        ("LlamaForSequenceClassification", {"tie_word_embeddings": False}, False),
        ("T5ForConditionalGeneration", {}, False),
    ],
)
def test_the_hint_names_a_class_only_if_it_has_its_weights(name, settings, is_named):
    with pytest.raises(UnsupportedModel, match="continues text") as problem:
        read(model_of(name, **settings))
    assert ("--auto-class AutoModelForCausalLM" in str(problem.value.hint)) == is_named


@pytest.mark.parametrize("place", [{"gguf": "m.gguf"}, {"onnx": "m.onnx"}, {"onnx": "folder"}])
def test_an_output_matrix_of_random_numbers_is_not_written(place, tmp_path):
    model = model_of("LlamaForSequenceClassification", pad_token_id=0)
    folder = save(model, tmp_path / "model", byte_tokenizer())
    target = {kind: tmp_path / "out" / name for kind, name in place.items()}
    with pytest.raises(FolderError, match=r"no weights for lm_head.weight of LlamaForCausalLM"):
        export(folder, **target, auto="AutoModelForCausalLM")
    assert not (tmp_path / "out").exists()


def test_a_window_longer_than_any_text_is_no_window():
    assert read(model_of("MistralForCausalLM", sliding_window=256)).context == 256


def test_the_hint_about_a_window_works():
    """A config that lists the kinds of its layers needs another change than one that does not."""
    window = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}
    with pytest.raises(UnsupportedModel, match='null and only "full_attention" as layer_types'):
        read(model_of("Qwen2ForCausalLM", **window))
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    with pytest.raises(UnsupportedModel, match="got layer_types of other layers"):
        read(model_of("Qwen2ForCausalLM", sliding_window=None, layer_types=kinds))
    changed = {**window, "sliding_window": None, "layer_types": ["full_attention"] * 3}
    assert read(model_of("Qwen2ForCausalLM", **changed)).context == 256
    with pytest.raises(UnsupportedModel, match='put "sliding_window": null into config'):
        read(model_of("MistralForCausalLM", sliding_window=16))


def test_head_norms_with_biases_and_scaled_positions():
    settings = {**MORE["qwen3-yarn"][1], "attention_bias": True}
    decoder = read(model_of("Qwen3ForCausalLM", **settings))
    with pytest.raises(UnsupportedModel, match="head norms, biases and scaled rotary positions"):
        plan(decoder, quantised=False)


def test_numbers_too_large_for_f16(tmp_path):
    model = build("tied")
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[3, 4] = 1e5
    save(model, tmp_path / "model", byte_tokenizer())
    with pytest.raises(UnsupportedModel, match=r"blk.0.ffn_down.weight has numbers up to 1e\+05"):
        export(tmp_path / "model", gguf=tmp_path / "out" / "m.gguf", type="f16")
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_is_written_before_a_refusal(tmp_path):
    save(model_of("MistralForCausalLM", sliding_window=16), tmp_path / "model", byte_tokenizer())
    with pytest.raises(UnsupportedModel, match="window"):
        export(tmp_path / "model", gguf=tmp_path / "out" / "m.gguf")
    assert not (tmp_path / "out").exists()


def test_copied_key_value_heads():
    """Heads that lost the key/value head they shared, and got a copy of it."""
    model = build("llama")
    prune(model, ["decoder.0.1", "decoder.2.2"], groups="expand")
    counts = plan(read(model), quantised=False).metadata()
    assert counts["deci.attention.head_count"] == [3, 4, 3]
    assert counts["deci.attention.head_count_kv"] == [3, 2, 3]
