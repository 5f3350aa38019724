"""ONNX files answer as the model does; without the extra, the message says what to install."""

import copy
import errno
import importlib
import os
import sys
from types import SimpleNamespace

import pytest
import torch
import transformers

from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.exports import export
from deadhead.heads import discover, gated, load, prune, save
from deadhead.heads.depth import remove_layers
from deadhead.version import install_command
from tiny_models import build, build_class
from word_tokenizer import word_tokenizer


def answered(file, batch):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = session.run(None, {name: value.numpy() for name, value in batch.items()})
    return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}


def exported(model, folder):
    save(model, folder / "model")
    return export(folder / "model", onnx=folder / "deep" / "model.onnx")


@torch.no_grad()
def gated_logits(model, batch, **closed):
    with gated(model, **closed):
        logits: torch.Tensor = model(**batch).logits
    return logits


def of_ids(rows, length):
    ids = torch.randint(3, 90, (rows, length), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_the_file_has_the_heads_and_neurons_that_are_left(encoder):
    """And no output bias that was dropped: the layer without heads adds nothing."""
    batch = of_ids(5, 21)
    batch["token_type_ids"] = batch["input_ids"] % 2
    answer = answered(encoder.file, batch)
    assert list(answer) == ["logits"]
    expected = gated_logits(encoder.whole, batch, **encoder.closed)
    assert (answer["logits"] - expected).abs().max() < 1e-3
    for name, limit in (("closed", 1e-1), ("neurons", 1e-1), ("drop_output_bias", 1e-2)):
        rest = {key: value for key, value in encoder.closed.items() if key != name}
        other = gated_logits(encoder.whole, batch, **rest)
        assert (answer["logits"] - other).abs().max() > limit, name


@pytest.mark.slow
@pytest.mark.usefixtures("quick_exporter")
def test_a_file_of_an_encoder_and_a_decoder(tmp_path):
    """It also takes the tokens of the decoder, which keeps two heads, both over the encoder."""
    whole = build("marian", encoder_layers=1, decoder_layers=1).float()
    heads = [head for head in discover(whole) if head.block != "cross" or head.index > 1]
    file = exported(prune(copy.deepcopy(whole), heads), tmp_path)
    batch = of_ids(5, 21)
    batch["decoder_input_ids"] = batch["input_ids"][:, 1:5]
    answer = answered(file, batch)
    assert list(answer) == ["logits"]
    expected = gated_logits(whole, batch, closed=heads)
    assert (answer["logits"] - expected).abs().max() < 1e-3
    assert (answer["logits"] - gated_logits(whole, batch, closed=heads[1:])).abs().max() > 1e-2
    batch["input_ids"] = batch["input_ids"].flip(0)
    assert (answered(file, batch)["logits"] - expected).abs().max() > 1e-2


@pytest.mark.slow
@pytest.mark.usefixtures("quick_exporter")
@pytest.mark.parametrize(("family", "layers"), [("bert", [0]), ("t5", ["decoder.1", "encoder.0"])])
def test_a_file_with_fewer_layers(family, layers, tmp_path):
    whole = build(family).float()
    file = exported(model := remove_layers(copy.deepcopy(whole), layers), tmp_path)
    batch = of_ids(5, 21)
    if family == "t5":
        batch["decoder_input_ids"] = batch["input_ids"][:, 1:5]
    else:
        batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    answer = answered(file, batch)
    with torch.no_grad():
        expected, other = model(**batch)[0], whole(**batch)[0]
    (name,) = (n for n, value in answer.items() if value.shape == expected.shape)
    assert (answer[name] - expected).abs().max() < 1e-3 * expected.abs().max()
    assert (other - expected).abs().max() > 1e-1 * expected.abs().max()


def check_pairs(folder, file, *, reads_types):
    """Token types are inputs, and count where the model reads them."""
    model, tokenizer = load(folder).float().eval(), word_tokenizer()
    pairs = [
        ("the parcel was sent in april", "the parcel got lost"),
        ("rivers rise", "niemand"),
        ("er liest", "a parcel"),
    ]
    for rows in (pairs, pairs[:1], pairs[1:]):
        texts = map(list, zip(*rows, strict=True))
        batch = dict(tokenizer(*texts, padding=True, return_tensors="pt"))
        types = batch["token_type_ids"]
        assert int(types.max()) == 1
        answer = answered(file, batch)
        with torch.no_grad():
            expected = model(**batch)
            without = model(**{**batch, "token_type_ids": torch.zeros_like(types)})
        names = [name for name in expected if isinstance(expected[name], torch.Tensor)]
        assert list(answer) == names
        for name, value in answer.items():
            assert (value - expected[name]).abs().max() < 1e-3, name
            assert ((value - without[name]).abs().max() > 1e-2) == reads_types, name


def test_pairs_as_the_tokenizer_makes_them(encoder):
    check_pairs(encoder.model, encoder.file, reads_types=True)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_exporter")
def test_pairs_of_a_model_without_types(tmp_path):
    """It must still take what the tokenizer makes."""
    model = build_class(
        transformers.DebertaV2Model, num_hidden_layers=1, relative_attention=False
    ).float()
    model = prune(model, ["encoder.0.1"], neurons={("encoder", 0): range(48)})
    save(model, tmp_path / "model", word_tokenizer())
    file = export(tmp_path / "model", onnx=tmp_path / "model.onnx")
    check_pairs(tmp_path / "model", file, reads_types=False)


def test_a_file_that_answers_differently_is_not_kept(tmp_path, monkeypatch):
    class Liar:
        def __init__(self, *_, **__): ...

        def run(self, _, inputs):
            return [torch.zeros(*inputs["input_ids"].shape, 99).numpy()]

    class Program:
        model = SimpleNamespace(graph=SimpleNamespace(inputs=[]))

        def save(self, path, **_):
            path.write_bytes(b"a graph")

    monkeypatch.setattr("onnxruntime.InferenceSession", Liar)
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: Program())
    save(build("bert").float(), tmp_path / "model")
    for name in ("model.onnx", "folder"):
        with pytest.raises(DeadheadError, match="answers differently from the model"):
            export(tmp_path / "model", onnx=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def enlarging_rounding(model):
    """An offset that the weights of the classifier cancel, but for rounding."""
    model.bert.encoder.layer[-1].output.LayerNorm.bias += 1e4
    model.classifier.weight -= model.classifier.weight.mean(1, keepdim=True)


@pytest.mark.parametrize("enlarges", [False, True])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_difference_that_rounding_explains_is_none(enlarges, wrong, tmp_path, monkeypatch):
    """Even float64 differs from a model that enlarges rounding; one wrong weight still counts."""
    model = build_class(transformers.BertForTokenClassification).float().eval()
    with torch.no_grad():
        if enlarges:
            enlarging_rounding(model)
        save(model, tmp_path / "model")
        if wrong:
            model.classifier.weight[0, 0] += 0.1
    model.double()

    @torch.no_grad()
    def run(_, inputs):
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        return [model(**tensors).logits.float().numpy()]

    session = SimpleNamespace(run=run)
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: session)
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    monkeypatch.setattr(exporting, "write", lambda graph, file: file.write_bytes(b"a graph"))
    if wrong:
        with pytest.raises(DeadheadError, match="answers differently from the model"):
            exporting.exported(tmp_path / "model", onnx=tmp_path / "model.onnx")
    else:
        file = exporting.exported(tmp_path / "model", onnx=tmp_path / "model.onnx")
        assert (file.gap > exporting.LIMITS[torch.float32]) == enlarges


@pytest.mark.parametrize("name", ["model.onnx", "folder"])
def test_a_full_disk_is_one_error(name, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deadhead.exports.onnx.export.write", full)
    save(build("bert").float(), tmp_path / "model")
    with pytest.raises(FolderError, match=f"{name} cannot be written: No space left on device"):
        export(tmp_path / "model", onnx=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path, monkeypatch):
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    monkeypatch.setattr(exporting, "write", lambda graph, file: file.write_bytes(b"a graph"))
    monkeypatch.setattr(exporting, "_differences", lambda *_: iter([SimpleNamespace(gap=0.0)]))
    save(build("bert").float(), tmp_path / "model")
    with pytest.raises(FolderError, match=r"no export wrote: .*model\.safetensors"):
        export(tmp_path / "model", onnx=tmp_path / "model")
    folder = export(tmp_path / "model", onnx=tmp_path / "onnx")
    (folder / "thesis.docx").write_text("mine")
    (folder / "results").mkdir()
    (folder / "results" / "run.csv").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    message = r"has files that no export wrote: results, thesis\.docx\.\n.*move them away"
    with pytest.raises(FolderError, match=message):
        export(tmp_path / "model", onnx=folder)
    assert sorted(tmp_path.rglob("*")) == before
    (folder / "thesis.docx").unlink()
    (folder / "results" / "run.csv").unlink()
    export(tmp_path / "model", onnx=folder)
    assert (folder / "results").is_dir()


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra) as error:
        export(tmp_path, onnx=tmp_path / "model.onnx")
    assert "onnxruntime" in error.value.message
    assert error.value.hint == install_command("onnx")


def test_a_folder_is_no_file_and_a_picture_no_text(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(UnsupportedModel, match="expected a file, got a folder"):
        export(tmp_path, onnx=tmp_path / "folder.onnx")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedModel, match="expected a file, got something that is no file"):
        export(tmp_path, onnx=tmp_path / "pipe")
    save(build("vit").float(), tmp_path / "vit")
    with pytest.raises(UnsupportedModel, match="expected a model that reads text"):
        export(tmp_path / "vit", onnx=tmp_path / "vit.onnx")


def test_too_few_positions_are_one_error(tmp_path):
    config = transformers.GPT2Config(vocab_size=60, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    save(transformers.GPT2LMHeadModel(config), tmp_path / "decoder")
    for name in ("folder", "model.onnx"):
        with pytest.raises(UnsupportedModel, match=r"at least 50 positions .*, got 8\.\n"):
            export(tmp_path / "decoder", onnx=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
