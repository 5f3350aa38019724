"""Tables of kind `multi-source`: rankings of several source languages, used together or alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deadhead.report.spec import Table
from deadhead.results import Mean, Search, Study
from deadhead.results.cells import Key

from .grid import Keyed, Layout
from .pairs import best, pair_label, search_grid, selected
from .published import Published

METHODS = ("FL", "MD", "SD", "EC")
OF_SOURCES = ("source", "train", "rank.merge", "targets")  # labels in which the methods differ
NOTE = (
    "FL: unpruned; MD, SD: one ranking out of those of all sources, merged by data and by scores; "
    "EC: the best of the sources' own rankings."
)


class MultiSource(Table):
    """The full model, rankings merged by data and by scores, and each source's own ranking."""

    kind = "multi-source"
    default_title = "Search"

    def build(self, study: Study) -> dict[str, Any]:
        layout = Layout.of(self, ("language",), ("task",) if len(study.labels("task")) > 1 else ())
        if "arm" not in layout.axes:
            layout = replace(layout, columns=(*layout.columns, "arm"))
        means = _scores(study, layout)
        _add_cells(means, study, layout)
        published = Published(study.published_rows(self.published), layout.axes)
        table = search_grid(study, self, layout, means, published.value, {"arm": list(METHODS)})
        return {**table, "note": f"{NOTE} {table['note']}"}


def _scores(study: Study, layout: Layout) -> Keyed:
    """The score of every method; EC is the best of all sources."""
    highest: dict[tuple[Key, frozenset[Any], str, str], float] = {}
    for pair in selected(study.searches, layout.where):
        if pair.setting != "cross-lingual":
            continue
        shared = frozenset((axis, label) for axis, label in pair.group if axis not in OF_SOURCES)
        for method, score in _methods(pair):
            key = tuple(method if a == "arm" else pair_label(pair, a) for a in layout.axes)
            case = (key, shared, method, pair.target)
            highest[case] = max(score, highest.get(case, score))
    means: Keyed = {}
    for (key, shared, method, target), score in highest.items():
        means.setdefault(key, Mean(full=method == "FL")).put(shared, str(shared), target, score)
    return means


def _add_cells(means: Keyed, study: Study, layout: Layout) -> None:
    """Add the trials of every mean, those still to run too."""
    axes = (*layout.axes, "arm", "source", "rank.merge")
    where = {**layout.unpruned_where, "setting": "cross-lingual"}
    for (*key, arm, source, merge), mean in study.means(axes, where, searches=True).items():
        method = "FL" if arm == "full" else _method(str(source), str(merge or ""))
        labels = zip(layout.axes, key, strict=True)
        its_key = tuple(method if axis == "arm" else label for axis, label in labels)
        means.setdefault(its_key, Mean(full=method == "FL")).cells.update(mean.cells)


def _method(source: str, merge: str) -> str:
    return "EC" if "+" not in source else merge.upper() if merge in ("md", "sd") else "MD"


def _methods(pair: Search) -> Iterator[tuple[str, float]]:
    merge = pair.rank.partition("merge=")[2]
    for method, arm in (("FL", "full"), (_method(pair.source, merge), "lowest")):
        if (score := best(arm)(pair)) is not None:
            yield method, score
