"""Findings about what was measured, and about scores without a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from deadhead.layout import Head
from deadhead.measures.measure import trials_in_words
from deadhead.report.head_values import measured_in
from deadhead.report.labels import metric_words, removal_words, split_words
from deadhead.results import Opened, Study
from deadhead.results.statistics import THIRDS, entropy_change, head_changes

FEW = 4  # prunings that a sentence names


def measured(study: Study) -> list[str]:
    """A sentence of each measure about what the trials measured."""
    done = [trial for trial in study.opened.values() if trial.done]
    sentences = (
        _entropy(done)
        if name == "entropy"
        else measure.finding(
            [{s: of[name] for s, of in trial.measures.items() if name in of} for trial in done]
        )
        for name, measure in measured_in(study).items()
    )
    return list(filter(None, sentences))


def _entropy(opened: Sequence[Opened]) -> str | None:
    """How far the entropy of heads moves: the mean over all heads hides it, since signs differ."""
    moved: list[float] = []
    by_third: dict[str, list[float]] = {}
    early = trials = 0
    for trial in opened:
        before, later = trial.before_and_later("entropy")
        changes = head_changes(before, later)
        if not changes:
            continue
        layers = 1 + max(Head.parse(name).layer for name in (*before, *trial.removed))
        for third, change in entropy_change(before, later, layers=layers).items():
            by_third.setdefault(third, []).append(change)
        moved.append(fmean(changes.values()))
        early, trials = early + ("first" in trial.measures), trials + 1
    if not trials:
        return None
    when = "one epoch" if early == trials else "training"
    thirds = ", ".join(f"{t} {fmean(by_third[t]):.3f}" for t in THIRDS if t in by_third)
    return (
        f"The attention entropy of a head changes by {fmean(moved):.3f} nats in {when} (mean "
        f"absolute change, {trials_in_words(trials)}); by layers: {thirds}."
    )


def scored(study: Study) -> list[str]:
    """The scores themselves, and how they grew from the first epoch on.

    Only if all trials remove the same: a mean over different prunings says nothing.
    """
    done = {name: cell for name, cell in study.trials.items() if cell.scores}
    metrics = {cell.metric for cell in done.values()}
    if len(study.labels("remove")) > 1 or len(metrics) != 1:
        return []
    scores = study.means(("language",))
    means = {language: mean.value for (language,), mean in scores.items() if mean.values}
    growth = [pair for trials in study.after_one_epoch().values() for pair in trials.values()]
    split = " / ".join(map(split_words, dict.fromkeys(cell.split for cell in done.values())))
    mean = f"{fmean(means.values()):.1f} ({trials_in_words(len(done))})"
    text = f"Mean {metric_words(metrics.pop())} on {split} is {mean}"
    if len(means) > 1:
        low, high = min(means, key=lambda m: means[m]), max(means, key=lambda m: means[m])
        text += f", highest in {high} ({means[high]:.1f}) and lowest in {low} ({means[low]:.1f})"
    if not growth:
        return [f"{text}."]
    first, last = (fmean(scores) for scores in zip(*growth, strict=True))
    return [f"{text}.", f"After one epoch the mean is {first:.1f}, after all epochs {last:.1f}."]


def collapsed(study: Study) -> list[str]:
    """Trials whose model predicts one label for everything: there the training failed."""
    done = study.states["done"]
    failed = [c for c in study.trials.values() if c.state == "done" and c.one_label(c.split)]
    if not failed:
        return []
    labels = (str(cell.axes.get("remove", "none")) for cell in failed)
    names = list(dict.fromkeys(map(removal_words, labels)))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return [
        f"{len(failed)} of {done} trials predict one label for everything in the language "
        f"they learnt ({', '.join(names[:FEW])}{more}): the training failed there, which is not "
        "what pruning costs. A lower learning rate or another seed may help."
    ]
