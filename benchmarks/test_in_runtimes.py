"""`compare_runtimes`: the same tokens everywhere, speeds of the same prompts, what it refuses."""

import in_runtimes
import pytest
import torch
from in_runtimes import TYPES, Runtime, _Run, compare_runtimes
from runtime_worker import RUNTIMES
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from deadhead.errors import DataError, DeadheadError, UnsupportedModel
from deadhead.exports.gguf import runtime as llama_cpp
from deadhead.heads import prune, save
from gguf_models import SIZES, byte_tokenizer

TINY = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40}


def test_a_class_runs_each_runtime():
    assert tuple(RUNTIMES) == tuple(TYPES)


def decoder():
    """Two layers are enough to have another number of heads in each."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, "num_hidden_layers": 2})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms that would hide a mistake
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    model = prune(decoder(), ["decoder.0.1", "decoder.0.3", "decoder.1.2", "decoder.1.3"])
    return save(model, tmp_path_factory.mktemp("uneven"), byte_tokenizer())


@pytest.mark.slow
def test_runtimes_of_a_decoder(uneven):
    names = ["transformers", "onnx", "onnx-genai", "llama.cpp:f32"]
    texts = ["Maria bought a red car", "The dog"]
    result = compare_runtimes([uneven], names, prompts=texts, new_tokens=6, repeats=2)
    assert [row["runtime"] for row in result["rows"]] == [*names[:3], "llama.cpp f32"]
    assert [row["problem"] for row in result["rows"]] == [None] * 4
    assert [row["same_tokens"] for row in result["rows"]] == [None, 2, 2, 2]
    for row in result["rows"]:
        assert min(row["prompt_tokens_per_second"], row["new_tokens_per_second"]) > 0
        assert row["file_bytes"] > 10_000
    memory = [row["peak_memory_bytes"] for row in result["rows"]]
    assert max(memory[1:]) < memory[0]  # the others run without torch
    assert result["prompt_tokens"] == [len(byte_tokenizer()(text)["input_ids"]) for text in texts]


def test_a_file_that_is_no_model(uneven, monkeypatch):
    """The error says why a process failed."""

    def damage(run, files):
        run.file = files.place / "m.onnx"
        run.file.write_bytes(b"nothing")

    monkeypatch.setattr(_Run, "prepare", damage)
    with pytest.raises(DeadheadError, match=r"onnx: it stopped: .*m\.onnx"):
        compare_runtimes([uneven], ["onnx"], lengths=[4], repeats=1)


def test_a_runtime_that_is_not_installed(uneven, monkeypatch):
    monkeypatch.setattr(llama_cpp, "is_installed", lambda: False)
    with pytest.raises(DeadheadError, match=r"no runtime can run .*'xllamacpp'.*\[gguf\]"):
        compare_runtimes([uneven], ["llama.cpp"])


def test_genai_is_not_installed(uneven, monkeypatch):
    monkeypatch.setattr(in_runtimes, "find_spec", lambda _: None)
    with pytest.raises(DeadheadError, match=r"no runtime can run .*'onnxruntime-genai'.*\[genai\]"):
        compare_runtimes([uneven], ["onnx-genai"])


def answers(prompt, new, tokens):
    facts = {"prompt_seconds": prompt, "new_seconds": new, "tokens": tokens, "peak_bytes": 7}
    return [{"count": 10, **facts}, {"count": 30, **facts}]


def test_speeds_are_medians_and_ratios_are_of_the_same_round():
    """The second round is three times as slow for both models, which no ratio shows."""
    runs = [_Run(Runtime.of("transformers"), name) for name in ("small", "whole")]
    runs.append(_Run(Runtime.of("onnx"), "small"))
    for run, factor in zip(runs, (1, 2, 1), strict=True):
        for slow in (1, 3, 1):
            run.rounds.append(answers(0.5 * factor * slow, 2.0 * factor * slow, [1, 2, 3, 4, 5]))
    runs[2].rounds[-1][1] = {**runs[2].rounds[-1][1], "tokens": [1, 2, 3, 4, 9]}
    small, whole, onnx = (run.row(runs, "whole") for run in runs)
    assert small["prompt_tokens_per_second"] == 40 / 1.0
    assert small["new_tokens_per_second"] == 8 / 4.0  # the first token belongs to the prompt
    assert small["ratios"] == {"prompt": 2.0, "new": 2.0}
    assert whole["ratios"] == {"prompt": None, "new": None}
    assert (small["same_tokens"], onnx["same_tokens"]) == (None, 1)


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("tensorrt", "no runtime 'tensorrt'"),
        ("llama.cpp:q3", "use llama.cpp, llama.cpp:f32"),
        ("transformers:f16", "no runtime 'transformers:f16'"),
    ],
)
def test_unknown_runtimes(runtime, message):
    with pytest.raises(DeadheadError, match=message):
        compare_runtimes(["a"], [runtime])


def test_runtimes_are_named_with_their_type():
    labels = [Runtime.of(text).label for text in ("onnx", " llama.cpp", "llama.cpp:q8_0")]
    assert labels == ["onnx", "llama.cpp f16", "llama.cpp q8_0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [250], "new_tokens": 7}, "at most 256 positions, got 257"),
        ({"prompts": ["a", ""]}, "got an empty one"),
        ({"prompts": []}, "got none.\n  Hint: write a prompt on each line"),
    ],
)
def test_refused_numbers_and_prompts(options, message, uneven):
    with pytest.raises(DeadheadError, match=message):
        compare_runtimes([uneven], ["transformers"], **options)


def test_refused_models(tmp_path, uneven):
    save(BertModel(BertConfig(**TINY, intermediate_size=48)), tmp_path / "bert")
    with pytest.raises(DataError, match="has no tokenizer"):
        compare_runtimes([tmp_path / "bert"], ["transformers"], prompts=["a text"])
    with pytest.raises(UnsupportedModel, match="all generate text"):
        compare_runtimes([uneven, tmp_path / "bert"], ["transformers"])
    config = T5Config(d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=4, vocab_size=40)
    save(T5ForConditionalGeneration(config), tmp_path / "t5")
    with pytest.raises(UnsupportedModel, match="an encoder or a decoder"):
        compare_runtimes([tmp_path / "t5"], ["transformers"])


def test_the_random_prompts_are_the_same_for_all_models():
    models = [in_runtimes._Model(str(n), True, words, 64, [2]) for n, words in enumerate((40, 20))]
    requests = in_runtimes._requests(models, None, (5, 9), 3)
    assert [len(request["prompt"]) for request in requests] == [5, 9]
    assert max(max(request["prompt"]) for request in requests) < 20
    assert requests == in_runtimes._requests(models, None, (5, 9), 3)
