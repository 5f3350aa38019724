"""Commands know the modules behind the transformer of a sentence encoder."""

import json

import pytest
from command_line import output_of

from deadhead.embedding.embedder import POOLINGS
from deadhead.errors import UnsupportedModel
from deadhead.saved.bench import bench
from tiny_sentence_encoders import MODULES, sentence_encoder


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
