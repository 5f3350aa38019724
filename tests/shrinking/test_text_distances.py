"""General texts keep a model sound, stay apart from yours, and show what changed most."""

import copy

import pytest
import torch
from models_to_shrink import QUIET, build, data

from deadhead.errors import Notice
from deadhead.rankers.label_free import label_free
from deadhead.rankers.loss import TARGET
from deadhead.shrinking import shrink
from deadhead.shrinking.distances import (
    LEAST,
    TextDistance,
    _by_length,
    mean_distance,
    text_distances,
    warning_of,
)
from deadhead.shrinking.held_out import guard_measured, guard_size
from deadhead.shrinking.refitting import plan_refit

NARROW = pytest.mark.filterwarnings("ignore::deadhead.errors.Notice")


def guard(count=48, tokens=24):
    """Longer texts of other words, without labels."""
    ids = torch.randint(5, 40, (count, tokens), generator=torch.Generator().manual_seed(9))
    return [{"input_ids": part, "attention_mask": torch.ones_like(part)} for part in ids.split(16)]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@NARROW
def test_the_distance_is_that_of_the_finished_model():
    model, whole = build(), build()
    plan = plan_refit(model, data(), ["encoder.0.0", "encoder.1.2"], progress=False)
    rows = text_distances(model, model, plan, data(), guard())
    assert torch.equal(weights(model), weights(whole))
    plan.apply()
    loss = label_free(whole, "self")
    for texts, batches in (("yours", data()), ("guard", guard())):
        distances = []
        for batch in batches:
            target = loss.target(whole, batch)
            with torch.no_grad():
                outputs = model(**{n: v for n, v in batch.items() if n != "labels"})
            distances += loss.distance(outputs, {**batch, TARGET: target}).tolist()
        by_hand = sum(distances) / len(distances)
        assert mean_distance(rows, texts) == pytest.approx(by_hand, rel=1e-9)
        assert by_hand > 1e-6
        assert sum(row.examples for row in rows if row.texts == texts) == len(distances)


@NARROW
@pytest.mark.parametrize("loss", [None, "self"])
def test_a_guard_that_is_only_measured_changes_nothing(loss):
    def run(**options):
        model = build()  # one method: auto may prefer another choice
        how = {"heads": 0.5, "method": "fisher", "loss": loss}
        report = shrink(model, data(), **how, **QUIET, **options)
        return report, weights(model)

    alone, without = run()
    measured, same = run(guard=guard(), fit_guard=False)
    fitted, other = run(guard=guard())
    assert torch.equal(without, same)
    assert without.shape != other.shape or not torch.equal(without, other)
    assert (alone.guard, measured.guard, fitted.guard) == ((0, 0), (0, 48), (24, 24))
    assert alone.examples == measured.examples == fitted.examples
    assert {row.texts for row in alone.distances} == {"yours"}
    assert fitted.to_dict()["distances"][0]["texts"] == "yours"
    if loss is None:  # a choice by labels does not read it
        assert fitted.choice == alone.choice


@NARROW
def test_narrow_data_end_with_a_notice():
    same = [
        {**batch, "input_ids": torch.full_like(batch["input_ids"], 7)}
        for batch in copy.copy(data())
    ]
    with pytest.warns(Notice, match=r"General texts: outputs differ by .*Leave out --no-guard"):
        report = shrink(build(), same, heads=0.75, guard=guard(), fit_guard=False, **QUIET)
    assert report.warning is not None
    fitted = shrink(build(), same, heads=0.75, guard=guard(), **QUIET)
    assert mean_distance(fitted.distances, "guard") < mean_distance(report.distances, "guard")


def test_half_as_many_general_texts_as_examples():
    assert [guard_size(4000, n) for n in (9000, 2048, 900, 3)] == [2000, 2000, 900, 200]
    assert (guard_size(None, 9000), guard_size(400, 9000)) == (4500, 200)
    assert [guard_measured(n) for n in (2000, 500, 200, 48, 2)] == [250, 100, 100, 24, 1]


def test_lengths_with_few_texts_join_their_neighbours():
    pairs = [(5, 1.0)] * LEAST + [(40, 3.0)] * LEAST + [(300, 7.0)] * (LEAST - 1)
    rows = _by_length("yours", iter(pairs))
    assert [(row.above, row.up_to, row.examples) for row in rows] == [(0, 16, 8), (16, None, 15)]
    assert rows[1].distance == pytest.approx((3 * LEAST + 7 * (LEAST - 1)) / (2 * LEAST - 1))
    assert [row.name for row in rows] == ["of up to 16 tokens", "longer than 16 tokens"]
    few = _by_length("yours", iter([(5, 1.0), (100, 3.0)]))
    assert [(row.name, row.examples) for row in few] == [("of up to 256 tokens", 2)]


def row(texts, above, up_to, distance):
    return TextDistance(texts=texts, above=above, up_to=up_to, examples=10, distance=distance)


def test_one_sentence_names_the_texts_that_suffer():
    yours, short = row("yours", 0, 16, 0.04), row("guard", 0, 64, 0.05)
    long = row("guard", 64, None, 0.31)
    assert warning_of([yours, short, long], "embeddings") == (
        "Texts longer than 64 tokens: embeddings differ by 0.31, texts like yours 0.04. "
        "Add such texts with --text, or to the data of the task."
    )
    assert "Leave out --no-guard, or add" in warning_of([yours, long], "outputs", fitted=False)
    mine = warning_of([yours] * 9 + [row("yours", 16, None, 0.9)], "outputs", fitted=False)
    assert ". Add such texts" in mine
    everywhere = warning_of([yours, row("guard", 0, 64, 0.29), long], "outputs")
    assert everywhere.startswith("General texts: outputs differ by 0.30")
    assert warning_of([yours, short, row("guard", 64, None, 0.08)], "outputs") is None
    assert warning_of([], "outputs") is None
