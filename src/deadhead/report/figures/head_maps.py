"""What is known of single heads: maps of a value for each head, and for each head all that was found of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.report.labels import STAGES, removal_words
from deadhead.results import Study
from deadhead.results.cells import Cell
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
    yield from ranking_of(record).get("scores", {})
    for _, measure in measures_of(record):
        yield from measure.get("entropy") or {}
        yield from measure.get("weights") or {}


def ranking_of(record: Record) -> Mapping[str, Any]:
    """The ranking a trial made or went by; empty where there is none."""
    found = record.details.get("ranking") or {}
    if None in found.get("scores", {}).values():  # what was no number
        return {
            **found,
            "scores": {head: score for head, score in found["scores"].items() if score is not None},
        }
    return found


def measures_of(record: Record) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What was measured at each stage, by name; heads whose number was none are left out."""
    measures = record.details.get("measures") or {}
    for stage in STAGES:
        if measures.get(stage):
            found = dict(measures[stage])
            for name in ("entropy", "weights"):
                if name in found:
                    found[name] = {
                        head: value for head, value in found[name].items() if value is not None
                    }
            yield stage, found


def ranking_name(study: Study, record: Record) -> str:
    """What tells a ranking from the others of the study."""
    ranking = ranking_of(record)
    merge = f" {ranking['merge']}" if ranking.get("merge") else ""
    parts = [
        f"{ranking.get('method', 'ranking')}{merge}",
        "+".join(map(str, ranking.get("languages") or ())),
    ]
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
        scores = ranking_of(record).get("scores")
        if scores:
            found.setdefault(ranking_name(study, record), (trial, scores))
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
        for stage, measure in measures_of(record):
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
        for stage, measure in measures_of(record):
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
    places = {head: i for i, head in enumerate(found)}
    sums, weights = (np.zeros((len(found), len(study.languages))) for _ in range(2))
    for several in groups.values():
        gone = np.zeros((len(several), len(found)))
        for row, cell in zip(gone, several, strict=True):
            row[[places[head] for head in records[cell.trial].removed if head in places]] = 1
        scores = [cell.scores for cell in several]
        for i, language in enumerate(study.languages):
            told = [language in one for one in scores]
            with np.errstate(invalid="ignore"):  # of scores that are infinite nothing can be told
                differences, weight = _differences(
                    np.array([one[language] for one in scores if language in one]), gone[told]
                )
            sums[:, i] += weight * differences
            weights[:, i] += weight
    for head, place in places.items():
        effects = zip(study.languages, sums[place].tolist(), weights[place].tolist(), strict=True)
        found[head]["effect"] = {
            language: round(value / weight, 3) for language, value, weight in effects if weight
        }


def _alike(cell: Cell) -> Any:
    """The labels in which trials must agree to be compared; the arms of a search all remove few heads, and go together."""
    apart = {
        "seed",
        "draw",
        *(("arm", "k", "remove", "strategy", "amount") if "arm" in cell.axes else ()),
    }
    return frozenset((name, value) for name, value in cell.axes.items() if name not in apart)


def _differences(scores: Any, gone: Any) -> tuple[Any, Any]:
    """For each head that some of these trials removed and some did not: the difference, and its weight; 0 for the others."""
    number, count, sums = len(scores), gone.sum(axis=0), scores @ gone
    kept = number - count
    both = (count > 0) & (kept > 0)
    count, kept = count.clip(1), kept.clip(1)
    return both * (sums / count - (scores.sum() - sums) / kept), both * (
        count * kept / max(1, number)
    )
