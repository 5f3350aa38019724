"""The findings of a study: up to three sentences with their numbers, the most important first.

They say how much evidence there is: repetitions, the spread, the control for luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined
from deadhead.report.tables.significance import RATE
from deadhead.results import Study
from deadhead.results.statistics import ranking_rho

from .measures import collapsed, measured, scored
from .removals import removal_sentences
from .searches import search_sentences

Sentences = list[str]
Table = Mapping[str, Any]
MOST = 3
NEAR = 1.0  # points between our number and a published one
FEW = 3  # cells that a sentence names


def findings(study: Study, tables: Sequence[Table] = ()) -> Sentences:
    """Up to three sentences; none before a trial is done."""
    if study.is_search:
        sentences = search_sentences(study)
    else:
        sentences = removal_sentences(study, tested(tables))
    sentences = [*(table["best"] for table in tables if "best" in table), *sentences]
    sentences += [*_published(tables), *_alike(study), *measured(study)]
    if len(sentences) < MOST:
        sentences += scored(study)
    sentences = [*collapsed(study), *sentences][:MOST]
    return [_so_far(study, sentences[0]), *sentences[1:]] if sentences else []


def _so_far(study: Study, sentence: str) -> str:
    """The sentence, with the number of done trials if some are missing."""
    done, trials = study.states["done"], study.states.total()
    if done == trials:
        return sentence
    is_word = sentence[1:2].islower()  # not a name in capitals
    rest = (sentence[0].lower() if is_word else sentence[0]) + sentence[1:]
    return f"So far, with {done} of {trials} trials done: {rest}"


def tested(tables: Sequence[Table]) -> Sentences:
    """How many cells of the first table with tests differ from the unpruned model."""
    for table in tables:
        cells = [
            (cell, joined(*row, *column))
            for row, cells in zip(table["rows"], table["cells"], strict=True)
            for column, cell in zip(table["columns"], cells, strict=True)
            if cell["p"] is not None
        ]
        if cells:
            differ = [name for cell, name in cells if cell["mark"]]
            more = f" and {len(differ) - FEW} more" if len(differ) > FEW else ""
            names = f": {'; '.join(differ[:FEW])}{more}" if differ else ""
            return [
                f"{len(differ) or 'None'} of the {len(cells)} tested cells of the table "
                f'"{table["title"]}" differ{"" if len(differ) > 1 else "s"} from the unpruned '
                f"model at a false discovery rate of {100 * RATE:g} %{names}."
            ]
    return []


def _published(tables: Sequence[Table]) -> Sentences:
    """How close our numbers are to the published ones."""
    cells = [cell for table in tables for row in table["cells"] for cell in row]
    differences = [
        cell["ours"] - cell["published"]
        for cell in cells
        if cell["ours"] is not None and cell["published"] is not None
    ]
    if not differences:
        return []
    near = sum(abs(difference) <= NEAR for difference in differences)
    return [
        f"{near} of {len(differences)} numbers are within one point of the published ones; the "
        f"mean difference is {fmean(differences):+.1f} points."
    ]


def _alike(study: Study) -> Sentences:
    """How alike the rankings of languages are, for each method by itself."""
    rankings: dict[str, dict[str, Mapping[str, float]]] = {}
    for trial in study.opened.values():
        ranking = trial.ranking
        if ranking is not None and len(ranking.languages) == 1:
            method = joined(ranking.ranker, trial.cell.field("model"), trial.cell.field("task"))
            rankings.setdefault(method, {}).setdefault(ranking.language, ranking.scores)
    rhos: dict[str, dict[tuple[str, str], float]] = {}
    for method, scores in rankings.items():
        for a, b in combinations(scores, 2):
            if not isnan(rho := ranking_rho(scores[a], scores[b])):
                rhos.setdefault(method, {})[a, b] = rho
    if not rhos:
        return []
    count = max(len({name for pair in pairs for name in pair}) for pairs in rhos.values())
    text = f"Rankings of {count} languages agree with Spearman's rho "
    means = {method: fmean(pairs.values()) for method, pairs in rhos.items()}
    if len(rhos) == 1:
        (pairs,) = rhos.values()
        a, b = low = min(pairs, key=lambda pair: pairs[pair])
        return [
            f"{text}{fmean(means.values()):.2f} on average, least for {a} and {b} "
            f"({pairs[low]:.2f})."
        ]
    least, most = min(means, key=lambda m: means[m]), max(means, key=lambda m: means[m])
    names = _distinct_parts(list(rhos))
    return [
        f"{text}from {means[least]:.2f} ({names[least]}) to {means[most]:.2f} ({names[most]}), "
        "the means over pairs for each ranking method."
    ]


def _distinct_parts(methods: Sequence[str]) -> dict[str, str]:
    """The names of methods without the parts that all of them share."""
    parts = {method: method.split(", ") for method in methods}
    shared = set.intersection(*map(set, parts.values()))
    return {m: joined(*(part for part in parts[m] if part not in shared)) for m in methods}
