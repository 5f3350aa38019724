"""A pruned sentence encoder: cut in place, saved in each form, and loaded with equal embeddings."""

import json
import shutil
import sys
import warnings

import pytest
import sentence_transformers
import torch

from deadhead.embedding import embedder_of
from deadhead.errors import UnsupportedModel
from deadhead.forward import forward
from deadhead.heads import discover, load, prune, save
from deadhead.heads.depth import remove_layers
from deadhead.heads.load import skeleton
from tiny_models import uneven
from tiny_sentence_encoders import MODULES, TEXTS, bare_encoder, open_encoder, sentence_encoder

CARD = """---
library_name: sentence-transformers
---
# whole
Usage:
```python
from sentence_transformers import SentenceTransformer
model = SentenceTransformer("somebody/whole")
```
Trained on captions.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    whole = sentence_encoder(tmp_path_factory.mktemp("models") / "whole")
    (whole / "README.md").write_text(CARD)
    return whole


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    """transformers copies the code of a folder there; other processes must not write beside it."""
    with pytest.MonkeyPatch.context() as patch:
        cache = str(tmp_path_factory.mktemp("modules"))
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", cache)
        yield


def embeddings(encoder):
    result = encoder.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    return result.double()


def test_cut_in_place(folder, tmp_path):
    encoder = open_encoder(folder)
    whole = embeddings(encoder)
    prune(encoder[0].model, uneven(encoder[0].model))
    expected = embeddings(encoder)
    assert float((expected - whole).abs().max()) > 1e-3
    # what sentence-transformers saves goes into the encoder of the whole model
    encoder.save(str(tmp_path / "theirs"))
    again = open_encoder(folder)
    again[0].model = load(tmp_path / "theirs").eval()
    assert torch.equal(embeddings(again), expected)
    with pytest.raises((RuntimeError, ValueError), match="ignore_mismatched_sizes"):
        open_encoder(tmp_path / "theirs")


@pytest.mark.parametrize("form", ["compact", "padded"])
def test_a_saved_folder_is_one_of_theirs(form, folder, tmp_path, monkeypatch):
    model = load(folder).eval()
    prune(model, uneven(model))
    small = save(model, tmp_path / "small", form=form)
    monkeypatch.delitem(sys.modules, "sentence_transformers.models", raising=False)
    with warnings.catch_warnings():  # the first import of a module that has moved warns
        warnings.filterwarnings("error", message="Importing from 'sentence_transformers")
        encoder = open_encoder(small, trust_remote_code=form == "compact")
    with torch.no_grad():
        batch = encoder.tokenizer(TEXTS, padding=True, return_tensors="pt")
        ours = embedder_of(load(small))(forward(model, batch), batch).double()
    torch.testing.assert_close(embeddings(encoder), ours, rtol=0, atol=1e-5)
    if form == "compact":  # as small there as here
        assert discover(encoder[0].model).removed == ()
        assert len(discover(encoder[0].model)) == len(discover(model))
        with pytest.raises(ValueError, match="trust_remote_code"):
            open_encoder(small)
    # saved again in the other form
    other = save(load(small), tmp_path / "other", form="padded" if form == "compact" else "compact")
    again = open_encoder(other, trust_remote_code=form == "padded")
    torch.testing.assert_close(embeddings(again), ours, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_without_a_layer_it_is_an_ordinary_one(layer, folder, tmp_path):
    whole = open_encoder(folder)
    before = embeddings(whole)
    whole[0].model.encoder.layer = torch.nn.ModuleList([whole[0].model.encoder.layer[1 - layer]])
    small = save(remove_layers(load(folder), [layer]), tmp_path / "small")
    encoder = open_encoder(small)  # no trust_remote_code
    assert encoder[0].model.config.num_hidden_layers == 1
    assert not (small / "load_encoder.py").exists()
    torch.testing.assert_close(embeddings(encoder), embeddings(whole), rtol=0, atol=1e-6)
    assert float((embeddings(encoder) - before).abs().max()) > 1e-2


def test_dense_layers_keep_their_weights(tmp_path):
    dense = MODULES.Dense(32, 5)
    model = load(sentence_encoder(tmp_path / "whole", "max", dense, MODULES.Normalize()))
    prune(model, uneven(model))
    encoder = open_encoder(save(model, tmp_path / "small"), trust_remote_code=True)
    assert torch.equal(encoder[2].linear.weight, dense.linear.weight)
    again = save(load(tmp_path / "small"), tmp_path / "again", form="padded")
    torch.testing.assert_close(embeddings(open_encoder(again)), embeddings(encoder))


def test_a_layer_over_words_is_left_out(tmp_path):
    """Published encoders often name the class of the model that they were trained from."""
    folder = tmp_path / "whole"
    sentence_encoder(folder)
    config = json.loads((folder / "config.json").read_text())
    config = {**config, "architectures": ["BertForMaskedLM"], "deadhead": None}
    (folder / "config.json").write_text(json.dumps(config))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(load(folder)).__name__ == "BertModel"
    assert type(skeleton(folder)).__name__ == "BertModel"
    (folder / "modules.json").unlink()
    assert type(skeleton(folder)).__name__ == "BertForMaskedLM"


def test_a_transformer_in_a_folder_below(folder, tmp_path):
    """As the first versions of sentence-transformers saved it."""
    old = tmp_path / "old"
    (old / "0_Transformer").mkdir(parents=True)
    for file in folder.iterdir():
        if file.is_file() and file.name != "modules.json":
            shutil.copy(file, old / "0_Transformer")
    shutil.copytree(folder / "1_Pooling", old / "1_Pooling")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (old / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(
        UnsupportedModel, match=r"got Transformer \(0_Transformer\), Pooling"
    ) as got:
        load(old)
    assert "SentenceTransformer(OLD).save(NEW)" in got.value.hint
    open_encoder(old).save(str(tmp_path / "new"))
    load(tmp_path / "new")


def test_the_card_loads_this_model(folder, tmp_path):
    model = load(folder)
    prune(model, uneven(model))
    text = (save(model, tmp_path / "small") / "README.md").read_text()
    assert 'SentenceTransformer("PATH", trust_remote_code=True)' in text
    assert "somebody/whole" not in text
    text = (save(model, tmp_path / "padded", form="padded") / "README.md").read_text()
    assert 'SentenceTransformer("PATH")' in text


def test_the_card_of_a_cross_encoder(tmp_path):
    pairs = sentence_transformers.CrossEncoder(
        str(bare_encoder(tmp_path / "bert")), num_labels=1, device="cpu"
    )
    pairs.save(str(tmp_path / "whole"))
    model = load(tmp_path / "whole").eval()
    prune(model, uneven(model))
    small = save(model, tmp_path / "small")
    text = (small / "README.md").read_text()
    assert "import CrossEncoder\n" in text
    assert 'CrossEncoder("PATH", trust_remote_code=True)' in text
    assert "SentenceTransformer" not in text
    loaded = sentence_transformers.CrossEncoder(str(small), device="cpu", trust_remote_code=True)
    assert len(discover(loaded[0].model)) == len(discover(model))


def test_a_whole_model_stays_as_it_was(folder, tmp_path):
    saved = save(load(folder), tmp_path / "whole")
    assert json.loads((saved / "modules.json").read_text())[0]["type"].startswith("sentence_tr")
    assert not (saved / "load_encoder.py").exists()
