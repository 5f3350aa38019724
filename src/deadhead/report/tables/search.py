"""Tables of kind `search`: the best of k prunings, beside the unpruned model and the controls.

Every control has the same budget of k trials and is shown as its gain over the unpruned model, so
that luck is visible.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deadhead.report.spec import Table
from deadhead.results import Mean, Search, Study
from deadhead.results.cells import CHANCE, LANGUAGE, PRUNING
from deadhead.results.searches import ARMS
from deadhead.studies.trial import CONTROLS

from .grid import Keyed, Layout
from .pairs import Statistic, best, filler, picked, printed_score, search_grid, selected
from .published import Published

NOT_ROWS = (*PRUNING, *CHANCE, *LANGUAGE, "setting", "targets", "train", "splits")
LOWEST = ("full", "lowest")

# The columns: what is shown of each pair, and the arms it needs.
STATISTICS: Mapping[str, tuple[Statistic, tuple[str, ...]]] = {
    "unpruned": (best("full"), ("full",)),
    "best of k": (best("lowest"), LOWEST),
    "gain": (picked("lowest", "test", "gain"), LOWEST),
    "k": (picked("lowest", "test", "k"), LOWEST),
    "gain, stop rule": (picked("lowest", "stop", "gain"), LOWEST),
    "k, stop rule": (picked("lowest", "stop", "k"), LOWEST),
    "gain, chosen on dev": (picked("lowest", "dev", "gain"), LOWEST),
    "gain, chosen on source dev": (picked("lowest", "source dev", "gain"), LOWEST),
    **{f"gain of {arm}": (picked(arm, "test", "gain"), ("full", arm)) for arm in CONTROLS},
}
# What a column is tested against: the same of unpruned seeds, because the best of several trials
# gains even if pruning does nothing.
LUCK: Mapping[str, Statistic] = {
    "best of k": best("seeds"),
    "gain, chosen on dev": picked("seeds", "dev", "gain"),
    "gain, chosen on source dev": picked("seeds", "source dev", "gain"),
    "gain, stop rule": picked("seeds", "stop", "gain"),
    **dict.fromkeys(("gain", "gain of random", "gain of highest"), picked("seeds", "test", "gain")),
}


class SearchTable(Table):
    """One row for each pair, or means over pairs if the recipe names fewer rows."""

    kind = "search"

    def build(self, study: Study) -> dict[str, Any]:
        varied = [axis for axis in study.axes if axis not in NOT_ROWS]
        setting = ["setting"] if len(study.labels("setting")) > 1 else []
        layout = Layout.of(self, [*varied, *setting, "language"], ())
        pairs = selected(study.searches, layout.where)
        if "arm" in layout.axes:
            return self._by_arm(study, layout, pairs)
        return self._by_statistic(study, layout, pairs)

    def _by_statistic(
        self, study: Study, layout: Layout, pairs: Sequence[Search]
    ) -> dict[str, Any]:
        columns = _columns(study, pairs)
        fill = filler(study, layout, pairs)
        means: Keyed = {}
        for column in columns:
            statistic, arms = STATISTICS[column]
            filled = fill(arms, statistic, column == "unpruned")
            luck = fill(("full", "seeds"), LUCK[column], True) if column in LUCK else {}
            for key, mean in filled.items():
                mean.base = luck.get(key)
                means[(*key, column)] = mean
        published = Published(study.published_rows(self.published), (*layout.axes, "arm"))
        return search_grid(
            study,
            self,
            replace(layout, columns=(*layout.columns, "statistic")),
            means,
            lambda labels, mean: _published(published, labels, mean),
            {"statistic": columns},
        )

    def _by_arm(self, study: Study, layout: Layout, pairs: Sequence[Search]) -> dict[str, Any]:
        """Arms as an axis: the score of the unpruned model, and the best score of each arm."""
        at = layout.axes.index("arm")
        others = tuple(axis for axis in layout.axes if axis != "arm")
        fill = filler(study, replace(layout, rows=others, columns=()), pairs)
        means: Keyed = {}
        for arm in ARMS:
            if arm in study.labels("arm"):
                filled = fill(("full", arm), best(arm), arm == "full")
                means |= {(*key[:at], arm, *key[at:]): mean for key, mean in filled.items()}
        for key, mean in means.items():
            if key[at] not in ("full", "seeds"):
                mean.base = means.get((*key[:at], "seeds", *key[at + 1 :]))
        published = Published(study.published_rows(self.published), layout.axes)
        return search_grid(
            study,
            self,
            layout,
            means,
            lambda labels, mean: printed_score(published.of(labels, mean)),
        )

    @classmethod
    def suggest(cls, study: Study) -> Iterator[Table]:
        if study.recipe.get("search"):
            yield cls(title="Best of k")


def _columns(study: Study, pairs: Sequence[Search]) -> list[str]:
    """The statistics that some pair has; before there are pairs, those of the arms that are run."""
    columns = [
        name
        for name, (statistic, _) in STATISTICS.items()
        if any(statistic(pair) is not None for pair in pairs)
    ]
    run = study.labels("arm")
    controls = [f"gain of {arm}" for arm in CONTROLS if arm in run]
    return columns or ["unpruned", "best of k", "gain", *controls]


def _published(published: Published, labels: Mapping[str, Any], mean: Mean | None) -> float | None:
    """The published number for a statistic; a gain is worked out from two published scores."""

    def of(arm: str, column: str = "value") -> float | None:
        return printed_score(published.of({**labels, "arm": arm}, mean), column)

    full, lowest, statistic = of("full"), of("lowest"), labels["statistic"]
    if statistic.startswith("gain of "):
        return of(statistic.rpartition(" ")[2], "delta")
    gain = None if full is None or lowest is None else lowest - full
    return {"unpruned": full, "best of k": lowest, "gain": gain}.get(statistic)
