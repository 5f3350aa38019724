"""A config that names a class with a task layer, over weights of the bare model, as
all-mpnet-base-v2 has them.
"""

import warnings

import pytest
import transformers
from folders import edit_config, edit_weights
from safetensors.torch import load_file

from architectures.configs import FURTHER
from deadhead.errors import FolderError, Notice
from deadhead.heads import load, prune, save
from tiny_models import answers, apart, build_class

CASES = {
    # all-mpnet-base-v2; its output weights are those of the embeddings
    "MPNetForMaskedLM": "MPNetModel",
    "BertForTokenClassification": "BertModel",
}


@pytest.fixture(params=CASES)
def named(request, tmp_path):
    """The class that config.json names, the folder, and the model that its weights are."""
    model = build_class(
        getattr(transformers, CASES[request.param]),
        **(FURTHER["mpnet"] if "MPNet" in request.param else {}),
    )
    model.save_pretrained(tmp_path / "model")
    edit_config(tmp_path / "model", architectures=[request.param], tie_word_embeddings=False)
    return request.param, tmp_path / "model", model


def test_the_class_that_fits_the_weights_is_loaded(named, tmp_path):
    claimed, folder, model = named
    with pytest.warns(
        Notice,
        match=rf"names {claimed}, but the weights are those of {CASES[claimed]}: loaded as that",
    ):
        loaded = load(folder).eval()
    assert type(loaded) is type(model)
    assert apart(answers(loaded), answers(model)) == 0
    small = save(prune(loaded, ["encoder.0.0"]), tmp_path / "small")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)  # what is saved says what it is
        assert apart(answers(load(small).eval()), answers(loaded)) == 0


def test_damage_is_still_refused(named):
    _, folder, _ = named
    missing = next(
        name
        for name in load_file(folder / "model.safetensors")
        if "layer" in name and name.endswith("weight")
    )
    edit_weights(folder, lambda tensors: tensors.pop(missing))
    with pytest.raises(FolderError, match="is missing"):
        load(folder)


def test_half_a_task_layer_is_damage(tmp_path):
    build_class(transformers.BertForTokenClassification).save_pretrained(tmp_path)
    edit_weights(tmp_path, lambda tensors: tensors.pop("classifier.weight"))
    with pytest.raises(FolderError, match=r"classifier\.weight is missing"):
        load(tmp_path)
