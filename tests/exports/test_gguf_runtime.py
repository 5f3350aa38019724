"""llama.cpp answers with the exported file as the model does."""

import pytest
import torch

from deadhead.errors import DeadheadError
from deadhead.exports.gguf import runtime
from deadhead.exports.gguf.decoder import logits, read
from deadhead.exports.gguf.export import exported
from deadhead.exports.gguf.file import as_stored
from deadhead.heads import save
from gguf_models import build, byte_tokenizer
from slow import slow_but


@pytest.mark.parametrize(
    ("family", "change", "architecture"),
    slow_but(
        "llama3 qwen3",
        [
            ("llama3", "first-empty", "deci"),
            ("qwen2", "mean-fill", "deci"),
            ("mistral", "neurons", "deci"),
            ("qwen3-tied", "last-empty", "openelm"),
            ("qwen3-yarn", "uneven", "step35"),
            ("qwen3", "mean-fill", "laguna"),
        ],
    ),
)
def test_llama_cpp_answers_as_the_model(family, change, architecture, tmp_path):
    save(build(family, change), tmp_path / "model", byte_tokenizer())
    result = exported(tmp_path / "model", gguf=tmp_path / "m.gguf", type="f32")
    assert result.architecture == architecture
    assert result.comparison is not None
    assert (result.comparison.prompts, result.comparison.same) == (3, 3)
    assert result.comparison.gap < 1e-3
    assert result.comparison.positions > 20


@pytest.mark.parametrize("type", ["q8_0", "q4_0"])
def test_the_comparison_can_fail(type, tmp_path):
    """The answers of llama.cpp do not fit another model."""
    save(build("llama", "uneven"), tmp_path / "model", byte_tokenizer())
    result = exported(tmp_path / "model", gguf=tmp_path / "m.gguf", type=type)
    assert result.comparison is not None
    prompts = [[5, 9, 30, 44], [7, 3, 12]]
    answers = runtime.ask(result.file, prompts)["answers"]
    other = as_stored(read(build("llama", "middle-empty")), type)
    comparison = runtime.compare(other, prompts, answers)
    assert comparison.same < 2
    assert comparison.share > runtime.LIMITS[type]


def test_a_file_that_llama_cpp_cannot_load(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(DeadheadError, match=r"cannot run m\.gguf"):
        runtime.ask(tmp_path / "m.gguf", [[1, 2]])


def test_greedy_tokens_and_gaps_are_counted():
    """An answer of the model itself is the same; a wrong token and a wrong number are not."""
    decoder, prompt = read(build("tied")), [5, 9, 30]
    steps, ids = [], list(prompt)
    for _ in range(3):
        scores = logits(decoder, torch.tensor(ids))[-1].log_softmax(-1)
        token = int(scores.argmax())
        steps.append({"token": token, "likeliest": [(token, float(scores[token]))]})
        ids.append(token)
    assert runtime.compare(decoder, [prompt], [steps])[:3] == (1, 1, pytest.approx(0, abs=1e-4))
    steps[1]["likeliest"][0] = (steps[1]["token"], steps[1]["likeliest"][0][1] - 0.5)
    assert runtime.compare(decoder, [prompt], [steps]).gap == pytest.approx(0.5, abs=1e-4)
    steps[2]["token"] = (steps[2]["token"] + 1) % 300
    assert runtime.compare(decoder, [prompt], [steps]).same == 0
