"""Findings about what was measured on heads and embeddings, and about scores without a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from deadhead.layout import Head
from deadhead.report.labels import metric_words, removal_words, split_words
from deadhead.results import Study
from deadhead.results.cells import as_dict
from deadhead.results.from_record import by_stage

FEW = 4  # prunings that a sentence names
STAGES = ("before", "after")
Stages = Mapping[str, Mapping[str, Mapping[str, Any]]]  # stage -> measure -> values


def measured(study: Study) -> list[str]:
    """Entropy, change of weights and embeddings, as far as trials measured them."""
    done = [record for record in study.records.values() if record.state == "done"]
    trials: list[Stages] = [by_stage(record) for record in done]
    return [*_entropy(trials), *_weights(trials), *_embeddings(trials)]


def _count(trials: int) -> str:
    return "one trial" if trials == 1 else f"{trials} trials"


def _entropy(trials: list[Stages]) -> Iterator[str]:
    means = []  # before and after, over the heads of a trial that have both
    for trial in trials:
        sides = [as_dict(trial.get(stage, {}).get("entropy")) for stage in STAGES]
        heads = set(sides[0]).intersection(sides[1])
        if heads:
            means.append([fmean(side[head] for head in heads) for side in sides])
    if means:
        before, after = (fmean(values) for values in zip(*means, strict=True))
        change = "narrows" if after < before else "widens"
        if abs(after - before) < 0.01:
            change = "hardly changes"
        yield (
            f"Training {change} the attention of heads: mean entropy goes from {before:.2f} to "
            f"{after:.2f} nats ({_count(len(means))})."
        )


def _weights(trials: list[Stages]) -> Iterator[str]:
    layers: dict[str, list[float]] = {}
    all_weights = [as_dict(trial.get("after", {}).get("weights")) for trial in trials]
    for weights in all_weights:
        for name, value in weights.items():
            head = Head.parse(name)
            layers.setdefault(f"{head.block} layer {head.layer}", []).append(value)
    means = {layer: fmean(values) for layer, values in layers.items()}
    if len(means) > 1:
        low, high = min(means, key=lambda m: means[m]), max(means, key=lambda m: means[m])
        yield (
            f"Training changes the weights of {high} most ({means[high]:.2g} on average) and of "
            f"{low} least ({means[low]:.2g}; {_count(sum(map(bool, all_weights)))})."
        )


def _embeddings(trials: list[Stages]) -> Iterator[str]:
    both = []
    for trial in trials:
        embeddings = [as_dict(trial.get(stage, {}).get("embeddings")) for stage in STAGES]
        silhouettes = [values.get("silhouette") for values in embeddings]
        if all(isinstance(silhouette, int | float) for silhouette in silhouettes):
            both.append(silhouettes)
    if both:
        before, after = (fmean(values) for values in zip(*both, strict=True))
        yield (
            f"Sentences of different languages are {'mixed' if after < 0.25 else 'apart'} after "
            f"training: the silhouette of languages goes from {before:.2f} to {after:.2f} "
            f"(0: mixed, 1: apart; {_count(len(both))})."
        )


def scored(study: Study) -> list[str]:
    """The scores themselves, and how they grew from the first epoch on.

    Only if all trials remove the same: a mean over different prunings says nothing.
    """
    scored_cells = (c for c in study.cells if any(score is not None for score in c.main_row))
    done = {cell.trial: cell for cell in scored_cells}
    metrics = {cell.metric for cell in done.values()}
    if len(study.labels("remove")) > 1 or len(metrics) != 1:
        return []
    languages: dict[str, list[float]] = {}
    growth: list[tuple[float, float]] = []  # scores after one epoch and at the end
    for cell in done.values():
        firsts = cell.row(split=f"{cell.split}@1")
        for language, first, score in zip(cell.languages, firsts, cell.main_row, strict=True):
            if score is not None:
                languages.setdefault(language, []).append(score)
                growth += [] if first is None else [(first, score)]
    means = {language: fmean(scores) for language, scores in languages.items()}
    split = " / ".join(map(split_words, dict.fromkeys(cell.split for cell in done.values())))
    mean = f"{fmean(means.values()):.1f} ({_count(len(done))})"
    text = f"Mean {metric_words(metrics.pop())} on {split} is {mean}"
    if len(means) > 1:
        low, high = min(means, key=lambda m: means[m]), max(means, key=lambda m: means[m])
        text += f", highest in {high} ({means[high]:.1f}) and lowest in {low} ({means[low]:.1f})"
    if not growth:
        return [f"{text}."]
    first, last = (fmean(scores) for scores in zip(*growth, strict=True))
    return [f"{text}.", f"After one epoch the mean is {first:.1f}, after all epochs {last:.1f}."]


def collapsed(study: Study) -> list[str]:
    """Trials whose model predicts one label for everything: the training failed, not the pruning."""
    done = {c.trial: c for c in study.cells if c.state == "done" and c.summary}
    failed = [cell for cell in done.values() if cell.one_label(cell.split)]
    if not failed:
        return []
    labels = (str(cell.axes.get("remove", "none")) for cell in failed)
    names = list(dict.fromkeys(map(removal_words, labels)))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return [
        f"{len(failed)} of {len(done)} trials predict one label for everything in the language they "
        f"learnt ({', '.join(names[:FEW])}{more}): the training failed there, which is not what "
        "pruning costs. A lower learning rate or another seed may help."
    ]
