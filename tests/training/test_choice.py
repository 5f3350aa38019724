"""Multiple choice with a decoder: likelihoods by hand, batches, padding, ranking, saving."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

import tiny_decoders
from deadhead import discover, prune, rank
from deadhead.errors import DataError
from deadhead.rankers.loss import example_losses
from deadhead.tasks import Row, batches, dataset, encode
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate, predict
from deadhead.training.inference import option_likelihoods
from deadhead.training.models import labels_for

ROWS = [
    Row(("Maria bought a", " red car .", " dog", " city ; a house stands there ."), ("0",)),
    Row(("The dog ", "sleeps .", "is open ."), ("1",)),
    Row(("The café is", " 北京", " open .", " red", " a car", " the dog"), ("3",)),
    Row(("", "The house", "A house stands there ."), ("1",)),
    Row(("a city ; " * 5 + "a house", " stands", " sleeps"), ("0",)),
]
MODELS = {"gpt2": tiny_decoders.gpt2, "llama": tiny_decoders.llama}


def data():
    return dataset("choice", "text", "test", ROWS)


def by_hand(model, cut, context, option):
    """The log-likelihood of an option, one text at a time, without padding."""
    head = [] if context or cut.encode("a")[0] == cut.bos_token_id else [cut.bos_token_id]
    whole = [*head, *cut.encode(context + option)]
    own = len(whole) - len(head) - len(cut.encode(context.rstrip()))
    with torch.no_grad():
        scores = model(torch.tensor([whole])).logits[0].log_softmax(-1)
    places = range(len(whole) - own, len(whole))
    return float(sum(scores[place - 1, whole[place]] for place in places))


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("bos", [False, True])
def test_likelihoods_are_those_of_single_texts(family, bos):
    model, cut = MODELS[family](), tiny_decoders.tokenizer(bos)
    assert cut.pad_token_id is None
    expected = [by_hand(model, cut, r.texts[0], o) for r in ROWS for o in r.texts[1:]]
    encoded = encode(data(), cut)
    for tokens in (1, 60, None):  # one by one, in some batches, in one
        np.testing.assert_allclose(option_likelihoods(model, encoded, tokens), expected, atol=1e-9)
    assert np.ptp(expected) > 1
    cut.padding_side = cut.truncation_side = "left"
    np.testing.assert_allclose(option_likelihoods(model, encode(data(), cut)), expected, atol=1e-9)


@pytest.mark.parametrize("family", MODELS)
def test_the_three_choices(family):
    model, cut = MODELS[family](), tiny_decoders.tokenizer()
    encoded = encode(data(), cut)
    sums, begin, chosen = option_likelihoods(model, encoded), 0, []
    for row in ROWS:
        options = [option.lstrip() for option in row.texts[1:]]
        own = sums[begin : begin + len(options)]
        begin += len(options)
        lengths = (
            [1] * len(options),
            [len(o) for o in options],
            [len(o.encode()) for o in options],
        )
        chosen.append([str(np.argmax(own / np.array(size))) for size in lengths])
    predictions = predict(model, encoded)
    assert predictions.named() == chosen
    assert len({tuple(choice) for choice in chosen}) > 1
    scores = evaluate(model, {"rows": encoded}, progress=False)["rows"]
    for place, name in enumerate(("acc", "acc_norm", "acc_bytes")):
        right = [choice[place] == row.labels[0] for choice, row in zip(chosen, ROWS, strict=True)]
        assert scores[name] == pytest.approx(np.mean(right))


def test_the_loss_is_that_of_the_right_option():
    """The mean over its tokens, for each row; padding on the left gives the same."""
    model, cut = tiny_decoders.llama(), tiny_decoders.tokenizer()
    encoded = encode(data(), cut)
    sums = option_likelihoods(model, encoded)
    firsts = np.cumsum([0, *(len(row.texts) - 1 for row in ROWS)])[:-1]
    right = firsts + [int(row.labels[0]) for row in ROWS]
    labels = [encoded.arrays["labels"][encoded.starts[n] : encoded.starts[n + 1]] for n in right]
    expected = -sums[right] / [int((own >= 0).sum()) for own in labels]
    (batch,) = batches(encoded, sort=False)
    with torch.no_grad():
        losses = example_losses(model, batch)
        left = {name: tensor.clone() for name, tensor in batch.items()}
        for row, size in enumerate(batch["attention_mask"].sum(1).tolist()):
            for tensor in left.values():
                tensor[row] = tensor[row].roll(tensor.shape[1] - size)
        assert not torch.equal(left["attention_mask"], batch["attention_mask"])
        torch.testing.assert_close(example_losses(model, left), losses)
    np.testing.assert_allclose(losses.numpy(), expected, atol=1e-9)
    ranking = rank(model, batches(encoded, size=2), "ablation", progress=False)
    other = rank(model, [left], "ablation", progress=False)
    assert len(ranking) == len(discover(model))
    for head, value in ranking.scores.items():
        assert value == pytest.approx(other[head])
    assert np.ptp([*ranking.scores.values()]) > 0.01


def test_training_makes_the_right_options_likelier():
    model, cut = tiny_decoders.gpt2(), tiny_decoders.tokenizer()
    prune(model, ["decoder.0.1"])
    encoded = encode(data(), cut)
    before = option_likelihoods(model, encoded)
    settings = Settings(epochs=30, batch=2, rate=1e-2)
    history = finetune(model, encoded, settings, dev=encoded, progress=False)
    assert history.metric == "acc"
    assert {epoch.updates for epoch in history.epochs} == {3}  # five right options, two at a time
    assert history.epochs[-1].loss < 0.5 * history.epochs[0].loss
    assert history.scores["acc"] == 1
    assert not np.allclose(before, option_likelihoods(model, encoded))


def test_models_that_do_not_fit():
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder = BertLMHeadModel(BertConfig(vocab_size=300, intermediate_size=16, **size))
    with pytest.raises(DataError, match="does not fit choice") as problem:
        labels_for(encoder, data())
    assert "decoder" in str(problem.value.hint)
    short = tiny_decoders.gpt2(positions=16)
    with pytest.raises(DataError, match=r"windows of \d+ positions and the model has 16"):
        evaluate(short, {"rows": encode(data(), tiny_decoders.tokenizer())}, progress=False)


RECIPE = """
about: "multiple choice with a decoder"
steps: [rank, prune, evaluate]
fixed:
  model: {model}
  task: choice
  rank: {{method: ablation, split: dev}}
axes:
  remove: [none, {{lowest: 2}}]
"""


def test_a_study(tmp_path, monkeypatch):
    from deadhead.report.page.content import content
    from deadhead.studies import load as load_recipe
    from deadhead.studies import run

    folder = tmp_path / "data" / "choice"
    folder.mkdir(parents=True)
    for split in ("dev", "test"):
        rows = [
            {"context": r.texts[0], "options": r.texts[1:], "answer": int(r.labels[0])}
            for r in ROWS
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text)
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "data"))
    model = tiny_decoders.saved(tmp_path / "model")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(model=model))
    result = run(load_recipe(recipe), tmp_path / "study", executor="serial")
    records = [json.loads(f.read_text()) for f in (tmp_path / "study" / "records").glob("*.json")]
    assert (result.done, [r["error"] for r in records]) == (2, [None, None])
    metrics = {"text/test/acc", "text/test/acc_norm", "text/test/acc_bytes"}
    assert all(metrics == {*record["metrics"]} for record in records)
    assert sorted(len(record["removed"]) for record in records) == [0, 2]
    page = content(tmp_path / "study")
    samples = [e for record in page["records"].values() for e in record["sample"]]
    known = [example for example in samples if example["gold"]]
    assert {example["text"] for example in known} <= {row.texts[0] for row in ROWS}
    assert all(isinstance(e["predicted"], str) and e["errors"] in (0, 1) for e in known)
    assert known
