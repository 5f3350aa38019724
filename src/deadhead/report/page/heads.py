"""What the page shows of single heads: maps of values, and all numbers of each head."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.report.labels import STAGES, removal_words
from deadhead.results import Opened, Study
from deadhead.results.cells import CHANCE, PRUNING, Cell
from deadhead.results.records import map_measures
from deadhead.results.statistics import removal_effects

MOST_RANKINGS = 48  # maps of one kind
MOST_MEASURED = 96
DIGITS = 5


def maps(study: Study) -> list[dict[str, Any]]:
    """Layer x head maps: rankings, measures, and how often each head was removed."""
    ranked = [
        _map(f"Ranking: {name}", "ranking", ranking.trial, ranking.scores)
        for name, ranking in list(study.heads.rankings.items())[:MOST_RANKINGS]
    ]
    all_maps = [*ranked, *islice(_measured(study), MOST_MEASURED), *_removed(study)]
    return [{"id": f"map-{i + 1}", **head_map} for i, head_map in enumerate(all_maps)]


def _map(title: str, what: str, trial: str | None, scores: Mapping[str, Any]) -> dict[str, Any]:
    rounded = {h: round(v, DIGITS) if isinstance(v, float) else v for h, v in scores.items()}
    return {"title": title, "what": what, "trial": trial, "scores": rounded}


def _measured(study: Study) -> Iterator[dict[str, Any]]:
    measures = map_measures()
    for trial in study.opened.values():
        for stage, measured in trial.maps.items():
            for name, values in measured.items():
                if not any(values.values()):
                    continue  # before training no weight has changed
                words = measures[name]
                title = words.label if words.is_change else f"{words.label} {STAGES[stage]}"
                title += f": {trial_name(study, trial.cell)}"
                yield _map(title, name, trial.cell.trial, values)


def trial_name(study: Study, cell: Cell) -> str:
    """The labels of a cell that vary over the study."""
    names = cell.names
    axes = [axis for axis in study.axes if axis in names]
    parts = [
        f"{axis} {names[axis]}" if axis in CHANCE else str(names[axis])
        for axis in axes
        if axis not in ("strategy", "amount", "k", "arm")
    ]
    if "arm" in names:
        parts.append(f"{names['arm']} {names.get('k')}")
    return ", ".join(parts) or "the trial"


def _removed(study: Study) -> Iterator[dict[str, Any]]:
    """How often each head was removed: in all trials, and by each removal if there are several."""
    counts = study.heads.removed
    if not counts:
        return
    pruned = sum(bool(trial.removed) for trial in study.opened.values())
    yield _map(f"Times removed, in {_count(pruned, 'pruned trial')}", "removed", None, counts)
    by_label: dict[str, list[Opened]] = {}
    for trial in _pruned(study):
        by_label.setdefault(str(trial.cell.axes.get("remove")), []).append(trial)
    if 1 < len(by_label) <= MOST_RANKINGS // 2:
        for label, of_label in by_label.items():
            title = f"Removed: {removal_words(label)} ({_count(len(of_label), 'trial')})"
            counts = Counter(head for trial in of_label for head in trial.removed)
            yield _map(title, "removed", None, counts)


def _pruned(study: Study) -> Iterator[Opened]:
    """The opened trials that removed heads, in the order of the recipe."""
    opened = (study.opened.get(trial) for trial in study.trials)
    return (trial for trial in opened if trial is not None and trial.removed)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def heads(study: Study) -> dict[str, dict[str, Any]]:
    """For every head: its scores in each ranking, its measures, and what removing it did."""
    removed, names = study.heads.removed, study.heads.names
    scored = list(study.heads.rankings.items())[:MOST_RANKINGS]
    measures, effects = _means(study), _effects(study, names)
    return {
        head: {
            "rankings": {
                n: round(ranking.scores[head], DIGITS)
                for n, ranking in scored
                if head in ranking.scores
            },
            "measures": measures.get(head, {}),
            "removed": removed.get(head, 0),
            "effect": {language: round(v, 3) for language, v in effects[head].items()},
        }
        for head in names
    }


def _means(study: Study) -> dict[str, dict[str, dict[str, float]]]:
    """Means over all trials: head -> measure -> stage; a change is shown after training only."""
    values: dict[tuple[str, str, str], list[float]] = {}
    measures = map_measures()
    for trial in study.opened.values():
        for stage, measured in trial.maps.items():
            for name, of_heads in measured.items():
                if stage == "after" or not measures[name].is_change:
                    for head, value in of_heads.items():
                        values.setdefault((head, name, stage), []).append(value)
    means: dict[str, dict[str, dict[str, float]]] = {}
    for (head, name, stage), of_trials in values.items():
        mean = round(fmean(of_trials), measures[name].digits)
        means.setdefault(head, {}).setdefault(name, {})[stage] = mean
    return means


def _effects(study: Study, heads: list[str]) -> dict[str, dict[str, float]]:
    """What removing a head does to the score in each language, in points."""
    import numpy as np

    groups: dict[Any, list[Opened]] = {}
    for trial in _pruned(study):
        if trial.done:
            # Trials that share their other labels are compared; the arms of a search are a group.
            peers = trial.cell.without(*PRUNING if "arm" in trial.cell.axes else (), *CHANCE)
            groups.setdefault(peers, []).append(trial)
    languages = study.languages

    def matrices(trials: list[Opened]) -> tuple[Any, Any]:
        all_scores = [trial.cell.scores for trial in trials]
        scores = [[of.get(language, np.nan) for language in languages] for of in all_scores]
        removed = [{*trial.removed} for trial in trials]
        return np.array(scores), np.array([[float(h in r) for h in heads] for r in removed])

    effects = removal_effects(map(matrices, groups.values()), (len(heads), len(languages)))
    return {
        head: {name: value for name, value in zip(languages, row, strict=True) if not isnan(value)}
        for head, row in zip(heads, effects.tolist(), strict=True)
    }
