"""Commands know the modules behind the transformer of a sentence encoder."""

import json
import re

import pytest
from command_line import output_of

from deadhead.embedding.embedder import POOLINGS
from deadhead.errors import UnsupportedModel
from deadhead.saved.bench import bench
from tiny_sentence_encoders import MODULES, TEXTS, sentence_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder") / "encoder"
    return sentence_encoder(place, "mean", MODULES.Dense(32, 5), MODULES.Normalize())


def test_heads_shows_what_is_behind_the_transformer(folder):
    text = "pooling mean, 1 dense layer, normalised, texts of at most "
    assert f"sentence encoder: {text}" in output_of("heads", folder).stdout
    facts = json.loads(output_of("heads", folder, "--json").stdout)
    assert facts["sentence_encoder"].startswith(text)


def test_bench_runs_the_pooling(folder, monkeypatch):
    calls = []

    def counted(tokens, mask):
        calls.append(tokens.shape)
        return tokens[:, 0]

    monkeypatch.setitem(POOLINGS, "mean", counted)
    bench(folder, folder, batches=[2], lengths=[4], repeats=1)
    assert set(calls) == {(2, 4, 32)}


@pytest.mark.parametrize(
    "words",
    [
        ("heads", "MODEL"),
        ("rank", "MODEL", "--text", "TEXT", "--out", "OUT"),
        ("shrink", "MODEL", "--text", "TEXT", "--remove-heads", "50%", "--out", "OUT"),
        ("prune", "MODEL", "--heads", "encoder.0.0", "--out", "OUT"),
        ("bench", "MODEL", "--against", "MODEL"),
        ("export", "MODEL", "--onnx", "OUT.onnx"),
    ],
)
def test_what_is_not_understood_is_refused_before_weights_are_read(words, folder, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (model / file).write_bytes((folder / file).read_bytes())
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.LSTM"
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text("{}")
    text = tmp_path / "texts.txt"
    text.write_text("the dog sleeps .\n" * 8)
    paths = {"MODEL": model, "TEXT": text, "OUT": tmp_path / "out", "OUT.onnx": tmp_path / "o.onnx"}
    with pytest.raises(UnsupportedModel, match="the module LSTM"):
        output_of(*(paths.get(word, word) for word in words))


def test_no_gguf_file_without_its_pooling(folder, tmp_path):
    pytest.importorskip("gguf")
    with pytest.raises(UnsupportedModel, match="is a sentence encoder"):
        output_of("export", folder, "--gguf", tmp_path / "model.gguf")


def test_shrink_quotes_the_text_that_changed_most(run_command, tmp_path):
    """As the file has it, without the prompt, beside its cosine."""
    folder = sentence_encoder(tmp_path / "encoder", "mean")
    prompts = {"prompts": {"query": "the book: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    texts = [f"Maria  isn`t here; {one}; {two}" for one in TEXTS[:4] for two in TEXTS]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts))
    words = ("shrink", folder, "--text", file, "--remove-heads", "50%", "--no-guard")
    done = run_command(*words, "--on", "2x16", "--out", tmp_path / "small")
    assert done.code == 0, done.err
    quoted = re.search(r", lowest 0\.\d+: '(.*)'; similarities correlate", done.out)
    assert quoted[1] in texts


def test_evaluate_says_once_that_there_is_no_correlation(run_command, folder, tmp_path):
    file = tmp_path / "dev.tsv"
    file.write_text("".join(f"{text}\t{TEXTS[0]}\t2.5\n" for text in TEXTS))
    done = run_command("evaluate", folder, folder, "--task", "similarity", "--data", file)
    assert done.code == 0, done.err
    assert done.err.count("no correlation") == 1
    assert "all scores of the data are equal" in done.err
