"""The task layer of a classifier or tagger, refitted last to the logits of the whole model."""

import copy
from typing import Any

import pytest
import torch
import transformers
from refit_by_hand import batches, is_same, state

from deadhead.heads import discover
from deadhead.shrinking.held_out import held_out_numbers
from deadhead.shrinking.refitting import plan_refit, refit
from deadhead.shrinking.streams import TASK_LAYER

HEADS = ("encoder.0.0", "encoder.0.1", "encoder.0.2", "encoder.1.0", "encoder.1.1", "encoder.1.2")
KINDS = {
    "classes": transformers.BertForSequenceClassification,
    "tokens": transformers.BertForTokenClassification,
}


def build(kind, **config):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 24, "vocab_size": 30, "initializer_range": 0.5}
    return KINDS[kind](transformers.BertConfig(**sizes, num_labels=3, **config)).double().eval()


@torch.no_grad()
def outputs(model, data):
    """What the task layer reads and gives: a row for each example or each real token."""
    rows: list[Any] = []
    remove = model.classifier.register_forward_hook(
        lambda module, args, output: rows.append((args[0], output))
    ).remove
    pairs = []
    for batch in data:
        model(**batch)
        inputs, logits = rows.pop()
        if inputs.dim() == 3:
            real = batch["attention_mask"].bool()
            inputs, logits = inputs[real], logits[real]
        pairs.append((inputs, logits))
    remove()
    return torch.cat([x for x, _ in pairs]), torch.cat([z for _, z in pairs])


def divergence(logits, target):
    logs = logits.log_softmax(-1), target.log_softmax(-1)
    return float((logs[1].exp() * (logs[1] - logs[0])).sum(-1).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_it_brings_the_logits_nearer_to_those_of_the_whole_model(kind, monkeypatch):
    model, data = build(kind), batches(60)
    target = outputs(model, data)[1]
    with_it, without = copy.deepcopy(model), copy.deepcopy(model)
    report = refit(with_it, data, HEADS, progress=False)
    monkeypatch.setattr("deadhead.shrinking.task_layer.MOST_CLASSES", 2)
    refit(without, data, HEADS, progress=False)
    *layers, last = report.layers
    assert last.block == TASK_LAYER
    assert TASK_LAYER not in {layer.block for layer in layers}
    assert without.classifier.weight.equal(model.classifier.weight)
    assert not with_it.classifier.weight.equal(model.classifier.weight)
    near, far = (divergence(outputs(m, data)[1], target) for m in (with_it, without))
    assert near < 0.9 * far
    for name, value in state(without).items():  # all other weights are the same
        if "classifier" not in name:
            assert torch.allclose(value, state(with_it)[name], atol=1e-10), name


def test_a_plan_that_is_tried_gives_what_it_gives_when_applied():
    model, data = build("tokens"), batches(60)
    before = state(model)
    plan = plan_refit(model, data, HEADS, progress=False)
    with plan.tried(), torch.no_grad():
        tried = model(**data[0]).logits
    assert is_same(before, state(model))
    plan.apply()
    with torch.no_grad():
        assert torch.allclose(model(**data[0]).logits, tried, atol=1e-10)


def test_it_stays_as_it_is_where_it_cannot_be_fitted():
    language_model = transformers.BertForMaskedLM(build("tokens").config).double().eval()
    cases = {
        "shared with the embeddings": (language_model, {}),
        "too few examples": (build("classes"), {"count": 4}),
        "no refit": (build("tokens"), {}),
    }
    for case, (model, options) in cases.items():
        before = state(model)
        data = batches(**options)
        names = ("mean",) if case in ("no refit", "too few examples") else ("refit",)
        report = refit(model, data, HEADS, candidates=names, progress=False)
        assert TASK_LAYER not in {layer.block for layer in report.layers}, case
        last = [name for name in before if name.startswith(("classifier", "cls"))]
        assert last, case
        assert all(before[name].equal(state(model)[name]) for name in last), case
    assert len(discover(language_model)) == 2


def binary_divergence(logits, target):
    """The mean over examples of what the labels, each yes or no, differ by."""
    chances, new = target.sigmoid(), logits.sigmoid()
    yes = chances * (chances / new).log()
    no = (1 - chances) * ((1 - chances) / (1 - new)).log()
    return float((yes + no).sum(-1).mean())


def squares(logits, target):
    return float((logits - target).square().sum(-1).mean())


@pytest.mark.parametrize(
    ("kind", "problem", "judge"),
    [
        ("classes", None, divergence),
        ("classes", "multi_label_classification", binary_divergence),
        ("classes", "regression", squares),
        ("tokens", "multi_label_classification", divergence),  # which no tagger reads
    ],
)
def test_it_is_judged_by_what_fits_its_outputs(kind, problem, judge):
    model, data = build(kind, problem_type=problem), batches(60)
    small = copy.deepcopy(model)
    last = refit(small, data, HEADS, progress=False).layers[-1]
    assert last.block == TASK_LAYER
    examples = torch.arange(60 * 4)
    if kind == "tokens":
        lengths = torch.cat([batch["attention_mask"].sum(1) for batch in data])
        examples = examples.repeat_interleave(lengths)
    held_out = held_out_numbers(60 * 4)
    judging = torch.tensor([int(n) in held_out for n in examples])
    pair = (outputs(m, data)[1][judging] for m in (small, model))
    assert last.error_refitted == pytest.approx(judge(*pair), rel=1e-6)
    assert last.error_refitted < last.error_cut


@pytest.mark.parametrize("problem", [None, "multi_label_classification", "regression"])
def test_no_change_wins_ties(problem):
    """A head that adds next to nothing leaves: what other candidates gain is rounding."""
    model, data = build("classes", problem_type=problem), batches(60)
    with torch.no_grad():
        model.bert.encoder.layer[0].attention.output.dense.weight[:, :4] *= 1e-8
    before = model.classifier.weight.clone()
    report = refit(model, data, ["encoder.0.0"], progress=False)
    assert TASK_LAYER not in {layer.block for layer in report.layers}
    assert before.equal(model.classifier.weight)
