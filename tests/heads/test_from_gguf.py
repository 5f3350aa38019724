"""Models from GGUF files are ordinary models: found, gated, cut, saved; packed ones are refused."""

import copy
import json

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.heads import discover, gated, load, prune, save
from deadhead.heads.from_gguf import gguf_tokenizer, is_marked
from deadhead.training.models import tokenizer_for

FILE = "tiny.gguf"
WORDS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁a", "▁b", "a", "b"]
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers.": "blk.",
}


def interleaved(name, weight, config):
    """The rows of queries and keys as llama.cpp turns them: pairs beside each other."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((n for part, n in heads.items() if part in name), None)
    if count is None:
        return weight
    return weight.view(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A tiny Llama, and a folder with it as a GGUF file."""
    config = LlamaConfig(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
        intermediate_size=64, vocab_size=len(WORDS), max_position_embeddings=64,
        initializer_range=0.5, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    folder = tmp_path_factory.mktemp("gguf")
    writer = gguf.GGUFWriter(folder / FILE, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(WORDS)
    writer.add_token_scores([-float(number) for number in range(len(WORDS))])
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, weight in model.state_dict().items():
        tensor = interleaved(name, weight, config)
        for old, new in NAMES.items():
            name = name.replace(old, new)
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, folder


def logits(model):
    ids = torch.randint(3, len(WORDS), (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model(input_ids=ids).logits


def test_load_gives_the_ordinary_model(original):
    whole, folder = original
    model = load(folder, gguf=FILE)
    assert isinstance(model, LlamaForCausalLM)
    torch.testing.assert_close(logits(model), logits(whole))
    assert not is_marked(model)
    assert not hasattr(model.config, "quantization_config")
    assert len(discover(model)) == 8
    assert {p.dtype for p in load(folder / FILE, dtype="float16").parameters()} == {torch.float16}


def test_cut_and_saved_it_is_an_ordinary_folder(original, tmp_path):
    _, folder = original
    (folder / "private.txt").write_text("not a part of the model")
    model = load(folder / FILE)
    removed = ["decoder.0.0", "decoder.0.1"]
    with gated(model, closed=removed):
        closed = logits(model)
    assert not torch.allclose(closed, logits(model), atol=1e-2)
    save(prune(model, removed), tmp_path / "small")
    assert "quantization_config" not in json.loads((tmp_path / "small/config.json").read_text())
    assert not (tmp_path / "small/private.txt").exists()
    torch.testing.assert_close(logits(load(tmp_path / "small")), closed, rtol=1e-4, atol=1e-4)


def test_a_model_that_the_user_loaded_has_the_mark_and_works(original, tmp_path):
    whole, folder = original
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE)
    assert is_marked(model)  # or this test proves nothing
    save(model, tmp_path / "whole")
    assert "quantization_config" not in json.loads((tmp_path / "whole/config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE)
    prune(model, ["decoder.1.2", "decoder.1.3"])
    assert not is_marked(model)
    save(model, tmp_path / "small")
    expected = prune(copy.deepcopy(whole), ["decoder.1.2", "decoder.1.3"])
    torch.testing.assert_close(logits(load(tmp_path / "small")), logits(expected))


def test_weights_that_are_not_plain_floats_stay_refused(original):
    _, folder = original
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE)
    packed = torch.zeros(4, 4, dtype=torch.uint8)
    model.lm_head.weight = torch.nn.Parameter(packed, requires_grad=False)
    with pytest.raises(UnsupportedModel, match="quantised"):
        prune(model, ["decoder.0.0", "decoder.0.1"])
    assert is_marked(model)


def test_a_missing_file_and_a_missing_package(original, monkeypatch):
    _, folder = original
    with pytest.raises(FolderError, match=r"no file other.gguf.*\n.*it has tiny.gguf"):
        load(folder, gguf="other.gguf")
    monkeypatch.setattr("transformers.utils.is_gguf_available", lambda: False)
    with pytest.raises(MissingExtra, match="gguf"):
        load(folder / FILE)


def test_a_damaged_file(tmp_path):
    for content in (b"GGUF and then nothing", b"something else"):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(DeadheadError, match=rf"{FILE}: .*\n.*name a whole GGUF file"):
            load(tmp_path / FILE)


def test_a_file_of_the_same_name_in_the_current_folder_is_another(original, tmp_path, monkeypatch):
    model, folder = original
    (tmp_path / FILE).write_bytes(b"another file")
    monkeypatch.chdir(tmp_path)
    weights = load(folder / FILE).state_dict()
    assert torch.equal(weights["lm_head.weight"], model.lm_head.weight)


@pytest.mark.parametrize(
    "damage",
    [(b"tokenizer.ggml.tokens", b"tokenizer.ggml.tokenz"), (b"<unk>", b"\xff\xfe\xfd\xfc\xfb")],
)
def test_a_damaged_tokenizer_is_one_error(original, tmp_path, damage):
    whole = original[1] / FILE
    assert tokenizer_for(str(whole)).convert_tokens_to_ids("a") == WORDS.index("a")  # the twin
    assert gguf_tokenizer(str(whole)).convert_tokens_to_ids("a") == WORDS.index("a")
    file = tmp_path / FILE
    file.write_bytes(whole.read_bytes().replace(*damage, 1))
    with pytest.raises(DeadheadError, match="no readable tokenizer"):
        tokenizer_for(str(file))
    with pytest.raises(DeadheadError, match="no readable tokenizer"):
        gguf_tokenizer(str(file))
