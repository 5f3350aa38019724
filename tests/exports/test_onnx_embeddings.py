"""The graph of a sentence encoder gives its embeddings, with pooling, dense layers and norm."""

import json

import pytest
import sentence_transformers
import torch

from deadhead.embedding import embedder_of
from deadhead.embedding.embedder import POOLINGS
from deadhead.exports.onnx.export import exported
from deadhead.forward import forward
from deadhead.heads import load, prune, save
from tiny_models import uneven
from tiny_sentence_encoders import MODULES, TEXTS, sentence_encoder

LONG = [" ".join(TEXTS), *TEXTS, ""]


@pytest.fixture(scope="module")
def small(tmp_path_factory, quick_exporter):
    """A pruned encoder with all poolings side by side, and its graph in a folder."""
    place = tmp_path_factory.mktemp("encoder")
    layers = [
        MODULES.Dense(32 * len(POOLINGS), 8, activation_function=torch.nn.Tanh()),
        MODULES.Normalize(),
    ]
    model = load(sentence_encoder(place / "whole", tuple(POOLINGS), *layers))
    prune(model, uneven(model))
    save(model, place / "small")
    programs = []
    write = torch.onnx.export

    def noted(*values, **options):
        programs.append(write(*values, **options))
        return programs[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", noted)
        result = exported(place / "small", onnx=place / "onnx")
        patch.setattr(torch.onnx, "export", lambda *_, **__: programs[0])
        yield place, result


def padded(place):
    """The same in sentence-transformers."""
    folder = place / "padded"
    if not folder.exists():
        save(load(place / "small"), folder, form="padded")
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def embeddings(file, batch):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    feed = {value.name: batch[value.name].numpy() for value in session.get_inputs()}
    return torch.from_numpy(session.run(["sentence_embedding"], feed)[0])


def batches(encoder):
    """Texts of all lengths, padded on either side, and alone."""
    for side, texts in (("right", LONG), ("left", LONG), ("right", LONG[:1]), ("right", LONG[-1:])):
        encoder.tokenizer.padding_side = side
        yield encoder.tokenizer(texts, padding=True, return_tensors="pt")


def test_the_same_embeddings_everywhere(small):
    place, result = small
    assert result.graphs[0].outputs == ("last_hidden_state", "sentence_embedding")
    model, theirs = load(place / "small").eval(), padded(place)
    for batch in batches(theirs):
        got = embeddings(place / "onnx" / "model.onnx", batch)
        with torch.no_grad():
            ours = embedder_of(model)(forward(model, batch), batch)
            expected = theirs(dict(batch))["sentence_embedding"]
        torch.testing.assert_close(got, ours, rtol=0, atol=1e-5)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    batch["attention_mask"][:, 0] = 0  # other tokens, other embeddings
    other = embeddings(place / "onnx" / "model.onnx", batch)
    assert float((got - other).abs().max()) > 1e-3


def test_the_folder_is_one_of_sentence_transformers(small):
    """Its ONNX backend runs the graph in place of the transformer, and the other modules itself."""
    place, _ = small
    modules = json.loads((place / "onnx" / "modules.json").read_text())
    assert modules[0]["type"] == "sentence_transformers.models.Transformer"
    assert not (place / "onnx" / "load_encoder.py").exists()
    assert (place / "onnx" / "2_Dense" / "model.safetensors").exists()


def test_int8_loses_neither_pooling_nor_normalisation(small):
    place, result = small
    int8 = exported(place / "small", onnx=place / "int8.onnx", int8=True)
    assert result.gap < 1e-5 < int8.int8_gap
    theirs = padded(place)
    for batch in batches(theirs):
        got = embeddings(place / "int8.onnx", batch)
        with torch.no_grad():
            expected = theirs(dict(batch))["sentence_embedding"]
        torch.testing.assert_close(got.norm(dim=1), torch.ones(len(got)))
        assert float((got * expected).sum(1).min()) > 0.97
    assert float((expected[:1] * theirs.encode(LONG, convert_to_tensor=True)).sum(1).min()) < 0.9
