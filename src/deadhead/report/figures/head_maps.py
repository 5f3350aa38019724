"""What is known of single heads: maps of a value for each head, and for each head all that was found of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.report.labels import STAGES, removal_words
from deadhead.results import RankedHeads, Study
from deadhead.results.cells import Cell
from deadhead.results.from_record import by_stage, ranking_of
from deadhead.results.statistics import removal_effects
from deadhead.studies.store.records import Record

MOST_RANKINGS = 48  # maps of one kind that a page still shows
MOST_MEASURED = 48
DIGITS = 5


def maps(study: Study, records: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Layer x head maps: rankings, entropies, weight changes, and how often each head was removed."""
    found = [*_rankings(study, records), *_measured(study, records), *_removed(study, records)]
    return [{"id": f"map-{i + 1}", **one} for i, one in enumerate(found)]


def layout(records: Mapping[str, Record]) -> dict[str, list[int]]:
    """Heads of each layer by block, as far as the records name them; layers of a block are taken to be alike."""
    sizes: dict[str, tuple[int, int]] = {}
    for name in {head for record in records.values() for head in _named(record)}:
        head = _head(name)
        if head is not None:
            layers, heads = sizes.get(head.block, (0, 0))
            sizes[head.block] = (max(layers, head.layer + 1), max(heads, head.index + 1))
    return {
        block: [heads] * layers
        for block, (layers, heads) in sorted(sizes.items(), key=lambda item: _block_order(item[0]))
    }


def _block_order(block: str) -> tuple[int, str]:
    known = ("encoder", "decoder", "cross")
    return (known.index(block) if block in known else len(known), block)


def _head(name: str) -> Head | None:
    try:
        return Head.parse(name)
    except DeadheadError:
        return None


def _named(record: Record) -> Iterator[str]:
    yield from record.removed
    if (ranking := ranking_of(record)) is not None:
        yield from ranking.scores
    for measures in by_stage(record).values():
        yield from measures.get("entropy") or {}
        yield from measures.get("weights") or {}


def ranking_name(study: Study, record: Record, ranking: RankedHeads) -> str:
    """What tells a ranking from the others of the study."""
    parts = [f"{ranking.ranker} {ranking.merge}".strip(), ranking.language]
    for name in ("task", "model", "seed"):
        if name in study.axes:
            parts.append(
                f"seed {record.trial.get(name)}" if name == "seed" else str(record.trial.get(name))
            )
    return ", ".join(filter(None, parts))


def rankings(
    study: Study, records: Mapping[str, Record]
) -> dict[str, tuple[str, Mapping[str, float]]]:
    """The distinct rankings: name -> trial it is from, scores."""
    found: dict[str, tuple[str, Mapping[str, float]]] = {}
    for trial, record in records.items():
        if (ranking := ranking_of(record)) is not None:
            found.setdefault(ranking_name(study, record, ranking), (trial, ranking.scores))
    return found


def _rankings(study: Study, records: Mapping[str, Record]) -> Iterator[dict[str, Any]]:
    for name, (trial, scores) in list(rankings(study, records).items())[:MOST_RANKINGS]:
        yield {
            "title": f"Ranking: {name}",
            "what": "ranking",
            "trial": trial,
            "scores": rounded(scores),
        }


def trial_name(study: Study, cell: Cell) -> str:
    """The labels of a cell that vary over the study."""
    shown = [
        name
        for name in study.axes
        if name not in ("strategy", "amount", "k", "arm") or name not in cell.axes
    ]
    parts = [
        f"{name} {cell.axes[name]}" if name in ("seed", "draw") else str(cell.axes[name])
        for name in shown
        if name in cell.axes
    ]
    if "arm" in cell.axes:
        parts.append(f"{cell.axes['arm']} {cell.axes.get('k')}")
    return ", ".join(parts) or "the trial"


def _measured(study: Study, records: Mapping[str, Record]) -> Iterator[dict[str, Any]]:
    cells, count = study.by_trial, 0
    for trial, record in records.items():
        for stage, measure in by_stage(record).items():
            for what, title in (("entropy", "Attention entropy"), ("weights", "Weight change")):
                if (
                    measure.get(what) and any(measure[what].values()) and count < 2 * MOST_MEASURED
                ):  # before training no weight has changed
                    count += 1
                    name = (
                        f"{title} {STAGES[stage]}: {trial_name(study, cells[trial])}"
                        if trial in cells
                        else title
                    )
                    yield {
                        "title": name,
                        "what": what,
                        "trial": trial,
                        "scores": rounded(measure[what]),
                    }


def _removed(study: Study, records: Mapping[str, Record]) -> Iterator[dict[str, Any]]:
    """How often each head was removed: in all trials, and for each removal that drew several sets."""
    everything = removed_counts(records)
    if not everything:
        return
    total = sum(bool(record.removed) for record in records.values())
    yield {
        "title": f"Times removed, in {total} pruned trial{'' if total == 1 else 's'}",
        "what": "removed",
        "trial": None,
        "scores": dict(everything),
    }
    by_label: dict[str, list[Record]] = {}
    cells = study.by_trial
    for trial, record in records.items():
        if record.removed and trial in cells:
            by_label.setdefault(str(cells[trial].axes.get("remove")), []).append(record)
    if 1 < len(by_label) <= MOST_RANKINGS // 2:
        for name, several in by_label.items():
            counts = Counter(head for record in several for head in record.removed)
            yield {
                "title": f"Removed: {removal_words(str(name))} ({len(several)} trial{'' if len(several) == 1 else 's'})",
                "what": "removed",
                "trial": None,
                "scores": dict(counts),
            }


def removed_counts(records: Mapping[str, Record]) -> Counter[str]:
    return Counter(head for record in records.values() for head in record.removed)


def rounded(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {
        head: round(value, DIGITS) if isinstance(value, float) else value
        for head, value in scores.items()
    }


def heads(
    study: Study, records: Mapping[str, Record], shape: Mapping[str, list[int]]
) -> dict[str, dict[str, Any]]:
    """For every head: its scores in each ranking, its entropy, its change of weights, and what its removal did."""
    found: dict[str, dict[str, Any]] = {}
    for block, sizes in shape.items():
        for layer, size in enumerate(sizes):
            for index in range(size):
                found[f"{block}.{layer}.{index}"] = {
                    "rankings": {},
                    "entropy": {},
                    "weights": None,
                    "removed": 0,
                    "effect": {},
                }
    for name, (_, scores) in list(rankings(study, records).items())[:MOST_RANKINGS]:
        for head, value in scores.items():
            if head in found:
                found[head]["rankings"][name] = round(value, DIGITS)
    _add_measures(found, records)
    for head, count in removed_counts(records).items():
        if head in found:
            found[head]["removed"] = count
    _add_effects(found, study, records)
    return found


def _add_measures(found: dict[str, dict[str, Any]], records: Mapping[str, Record]) -> None:
    """Means over all trials that were measured."""
    entropy: dict[str, dict[str, list[float]]] = {}
    weights: dict[str, list[float]] = {}
    for record in records.values():
        for stage, measure in by_stage(record).items():
            for head, value in (measure.get("entropy") or {}).items():
                entropy.setdefault(head, {}).setdefault(stage, []).append(value)
            if stage == "after":
                for head, value in (measure.get("weights") or {}).items():
                    weights.setdefault(head, []).append(value)
    for head, facts in found.items():
        facts["entropy"] = {
            stage: round(fmean(values), DIGITS) for stage, values in entropy.get(head, {}).items()
        }
        facts["weights"] = round(fmean(weights[head]), 8) if weights.get(head) else None


def _add_effects(
    found: dict[str, dict[str, Any]], study: Study, records: Mapping[str, Record]
) -> None:
    """Mean score of the trials that removed a head less that of the trials that kept it, in points, by language.

    Trials are compared with their like: pruned by the same amount, on the same task. Otherwise every head
    would look harmful, because the trials that remove much remove it more often. Groups count by how much they can tell.
    """
    import numpy as np

    groups: dict[Any, list[Cell]] = {}
    for trial, cell in study.by_trial.items():
        if trial in records and records[trial].removed and cell.state == "done":
            groups.setdefault(_alike(cell), []).append(cell)
    places, languages = {head: i for i, head in enumerate(found)}, study.languages

    def matrices(cells: list[Cell]) -> tuple[Any, Any]:
        scores = [[cell.scores.get(language, np.nan) for language in languages] for cell in cells]
        removed = np.zeros((len(cells), len(found)))
        for row, cell in zip(removed, cells, strict=True):
            row[[places[head] for head in records[cell.trial].removed if head in places]] = 1
        return np.array(scores), removed

    effects = removal_effects(map(matrices, groups.values()), (len(found), len(languages)))
    for facts, row in zip(found.values(), effects.tolist(), strict=True):
        pairs = zip(languages, row, strict=True)
        facts["effect"] = {name: round(value, 3) for name, value in pairs if not isnan(value)}


def _alike(cell: Cell) -> Any:
    """The labels in which trials must agree to be compared; the arms of a search all remove few heads, and go together."""
    apart = {
        "seed",
        "draw",
        *(("arm", "k", "remove", "strategy", "amount") if "arm" in cell.axes else ()),
    }
    return frozenset((name, value) for name, value in cell.axes.items() if name not in apart)
