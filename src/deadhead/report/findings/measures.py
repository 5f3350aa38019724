"""Sentences about what was measured on the heads and embeddings of trials, and about scores that stand alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from statistics import fmean
from typing import Any

from deadhead.layout import Head
from deadhead.report.labels import metric_words, removal_words, split_words
from deadhead.results import Study
from deadhead.results.cells import as_dict
from deadhead.results.from_record import by_stage
from deadhead.studies.store.records import Record

FEW = 4  # prunings named in a sentence
Stages = Mapping[str, Mapping[str, Mapping[str, Any]]]  # stage -> measure -> values


def measured(records: Mapping[str, Record]) -> list[str]:
    """Entropy, change of weights and embeddings, as far as trials measured them."""
    found: list[Stages] = [
        by_stage(record) for record in records.values() if record.state == "done"
    ]
    return [*_entropy(found), *_weights(found), *_embeddings(found)]


def _trials(number: int) -> str:
    return "one trial" if number == 1 else f"{number} trials"


def _entropy(found: list[Stages]) -> Iterator[str]:
    sides = [
        [as_dict(one.get(stage, {}).get("entropy")) for stage in ("before", "after")]
        for one in found
    ]
    sides = [both for both in sides if set(both[0]) & set(both[1])]
    if sides:
        before, after = (
            fmean(fmean(both[i][head] for head in set(both[0]) & set(both[1])) for both in sides)
            for i in (0, 1)
        )
        how = (
            "hardly changes"
            if abs(after - before) < 0.01
            else "narrows"
            if after < before
            else "widens"
        )
        yield f"Training {how} the attention of heads: mean entropy goes from {before:.2f} to {after:.2f} nats ({_trials(len(sides))})."


def _weights(found: list[Stages]) -> Iterator[str]:
    layers: dict[tuple[str, int], list[float]] = {}
    held = [weights for one in found if (weights := as_dict(one.get("after", {}).get("weights")))]
    for name, value in chain.from_iterable(weights.items() for weights in held):
        head = Head.parse(name)
        layers.setdefault((head.block, head.layer), []).append(value)
    means = {f"{block} layer {layer}": fmean(values) for (block, layer), values in layers.items()}
    if len(means) > 1:
        low, high = (
            min(means, key=lambda name: means[name]),
            max(means, key=lambda name: means[name]),
        )
        yield (
            f"Training changes the weights of {high} most ({means[high]:.2g} in the mean) and of {low} least ({means[low]:.2g}; "
            f"{_trials(len(held))})."
        )


def _embeddings(found: list[Stages]) -> Iterator[str]:
    sides = [
        [
            as_dict(one.get(stage, {}).get("embeddings")).get("silhouette")
            for stage in ("before", "after")
        ]
        for one in found
    ]
    whole = [
        (before, after)
        for before, after in sides
        if isinstance(before, int | float) and isinstance(after, int | float)
    ]
    if whole:
        before, after = fmean(both[0] for both in whole), fmean(both[1] for both in whole)
        where = "lie mixed" if after < 0.25 else "lie apart"
        yield (
            f"Sentences of different languages {where} after training: the silhouette of languages goes from {before:.2f} to {after:.2f} "
            f"(0: mixed, 1: apart; {_trials(len(whole))})."
        )


def scored(study: Study) -> list[str]:
    """Where nothing can be compared: the scores themselves, and how they grew from the first epoch on."""
    if len(study.labels("remove")) > 1:
        return []  # a mean over prunings of all kinds says nothing
    done = {
        cell.trial: cell
        for cell in study.cells
        if any(score is not None for score in cell.main_row)
    }
    metrics = {cell.metric for cell in done.values()}
    if not done or len(metrics) != 1:
        return []
    languages: dict[str, list[float]] = {}
    firsts: list[tuple[float, float]] = []
    for cell in done.values():
        for language, first, score in zip(
            cell.languages, cell.row(split=f"{cell.split}@1"), cell.main_row, strict=True
        ):
            if score is not None:
                languages.setdefault(language, []).append(score)
                firsts += [] if first is None else [(first, score)]
    means = {language: fmean(values) for language, values in languages.items()}
    low, high = min(means, key=lambda name: means[name]), max(means, key=lambda name: means[name])
    split = " / ".join(map(split_words, dict.fromkeys(cell.split for cell in done.values())))
    text = f"Mean {metric_words(metrics.pop())} on {split} is {fmean(means.values()):.1f} ({_trials(len(done))})"
    text += (
        f", highest in {high} ({means[high]:.1f}) and lowest in {low} ({means[low]:.1f})."
        if len(means) > 1
        else "."
    )
    if not firsts:
        return [text]
    return [
        text,
        f"After one epoch the mean is {fmean(a for a, _ in firsts):.1f}, after all of them {fmean(b for _, b in firsts):.1f}.",
    ]


def collapsed(study: Study) -> list[str]:
    """Trainings that ended in a model with one answer to everything: their scores tell of the training, not of the pruning."""
    trials = {
        cell.trial: (cell, cell.summary.metrics)
        for cell in study.cells
        if cell.state == "done" and cell.summary
    }
    failed = [cell for cell, metrics in trials.values() if cell.one_label(cell.split)]
    found = [removal_words(str(cell.axes.get("remove", "none"))) for cell in failed]
    if not found:
        return []
    names = list(dict.fromkeys(found))
    told = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
    return [
        f"{len(found)} of {len(trials)} trials give one label to everything in the language they learnt ({told}): training failed there, "
        "which is not what pruning costs. A lower rate or another seed may help."
    ]
