"""Models for a task: what `deadhead finetune` can train, a study can train too."""

import json

import pytest
import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from architectures.tiny import tiny
from deadhead import load, save
from deadhead.errors import DataError, DeadheadError, UnsupportedModel
from deadhead.forward import token_limit
from deadhead.saved.bench import inputs
from deadhead.studies import load as load_recipe
from deadhead.studies import run
from deadhead.tasks import load_data, task_of
from deadhead.training.models import (
    fitting_tokenizer,
    label_names,
    load_for_task,
    set_padding,
    tokenizer_for,
)
from deadhead.world import MODELS

ENCODER = MODELS / "encoder"
RECIPE = """
about: "a decoder without a pad token"
steps: [prune, finetune, evaluate]
fixed:
  model: {model}
  task: {task}
  data: {{examples: 24}}
  source: en
  targets: [en]
  splits: [dev]
  finetune: {{epochs: 1, rate: 1e-3, batch: 8, scored: none}}
axes:
  remove: [none, {{random_k: 1}}]
"""
TASK = """
name: reviews
kind: classify
texts: [review]
label: stars
labels: [bad, good]
languages: [en]
files: {train: "{lang}-train.tsv", dev: "{lang}-dev.tsv"}
"""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A GPT-2 that does not know its pad token."""
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    size = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 64}
    special = {"bos_token_id": None, "eos_token_id": None}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size, **special))
    assert model.config.pad_token_id is None
    return save(model, tmp_path_factory.mktemp("models") / "decoder", tokenizer)


@pytest.fixture
def reviews(tmp_path):
    """A task of sentences with different lengths, so that batches have padding."""
    rows = ["Maria bought a red car .\tgood", "The dog sleeps .\tbad", "A house .\tgood"]
    text = "\n".join(["review\tstars", *rows * 8]) + "\n"
    for split in ("train", "dev"):
        (tmp_path / f"en-{split}.tsv").write_text(text)
    (tmp_path / "reviews.yaml").write_text(TASK)
    return tmp_path / "reviews.yaml"


def test_a_study_of_a_decoder_without_a_pad_token(decoder, reviews, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(model=decoder, task=reviews))
    result = run(load_recipe(recipe), tmp_path / "study", executor="serial")
    records = (tmp_path / "study" / "records").glob("*.json")
    errors = [json.loads(record.read_text())["error"] for record in records]
    assert (result.done, result.total, errors) == (2, 2, [None, None])


def test_the_pad_token_is_that_of_the_tokenizer_and_only_set_if_missing(decoder):
    tokenizer = tokenizer_for(str(decoder))
    model = load(decoder)
    set_padding(model, lambda: tokenizer)
    assert model.config.pad_token_id == tokenizer.pad_token_id

    def never():
        raise AssertionError("the tokenizer is not needed")

    set_padding(model, never)


def test_a_new_classifier_has_the_labels_and_depends_on_the_seed(decoder):
    data = load_data("pos", "en", "dev", root="world")
    same, again, other = (
        load_for_task(str(decoder), task_of("pos"), data.labels, seed=seed) for seed in (1, 1, 2)
    )
    assert label_names(same) == tuple(data.labels)
    weights = [model.classifier.weight for model in (same, again, other)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_a_tokenizer_with_far_fewer_tokens_than_the_model_knows(decoder):
    model, tokens = load(decoder), len(tokenizer_for(str(decoder)))
    rounded = (tokens + 1024) // 8 * 8
    odd = tokens + 128 - (tokens % 8 == 0)  # not a multiple of 8: nobody rounded it up
    for rows in (rounded, odd):
        model.resize_token_embeddings(rows)
        assert len(fitting_tokenizer(model, str(decoder))) == tokens
    for rows in (rounded + 8, odd + 8, rounded - 1):  # odd + 8 is as odd
        model.resize_token_embeddings(rows)
        with pytest.raises(DataError, match=f"only {tokens:,} tokens and the model knows {rows:,}"):
            fitting_tokenizer(model, str(decoder))


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(DataError, match="has no readable tokenizer"):
        tokenizer_for(str(tmp_path))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [("one of: \n(1) this\n(2) that", "one of: (1) this (2) that"), ("a\nb", "a"), ("", "OSError")],
)
def test_why_a_tokenizer_cannot_be_read(monkeypatch, tmp_path, problem, reason):
    def fail(*_, **__):
        raise OSError(problem)

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", fail)
    with pytest.raises(DataError) as seen:
        tokenizer_for(str(tmp_path))
    assert seen.value.message == f"{tmp_path} has no readable tokenizer: {reason}"


@pytest.mark.parametrize(
    ("family", "main"), [("vit", "pixel_values"), ("whisper", "input_features")]
)
def test_a_model_that_reads_no_text(family, main, tmp_path):
    with pytest.raises(UnsupportedModel, match=f"a model of text, got .*: its input is {main}"):
        fitting_tokenizer(tiny(family), str(tmp_path))


@pytest.mark.parametrize(
    ("family", "unused"),
    [("bert", 0), ("roberta", 2), ("xlm-roberta", 2), ("mpnet", 2), ("longformer", 2), ("luke", 2)],
)
def test_the_limit_of_a_model_is_what_it_can_read(family, unused):
    model = tiny(family, max_position_embeddings=24, pad_token_id=1).eval()
    limit = token_limit(model)
    assert limit == 24 - unused
    with torch.no_grad():
        model(**inputs(model, 1, limit))
        with pytest.raises(
            DeadheadError, match=f"at most the {limit} positions .* got {limit + 1}"
        ):
            inputs(model, 1, limit + 1)
        tokens = torch.full((1, limit + 1), 5)
        with pytest.raises((RuntimeError, IndexError)):
            model(input_ids=tokens, attention_mask=torch.ones_like(tokens))
