"""Tables of kind `drop`: the share of the unpruned score that pruning loses, in percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from deadhead.report.spec import Table
from deadhead.results import Study

from .grid import Entry, Key, Means, entry, measured
from .values import drops_of


@dataclass(frozen=True, kw_only=True)
class Drop(Table):
    """The relative drop against the unpruned cell with the same other labels."""

    kind: ClassVar[str] = "drop"
    default_title: ClassVar[str] = "Scores"

    def build(self, study: Study) -> dict[str, Any]:
        means = Means.of(study, self, drops_of(study, self))

        def cell(key: Key) -> Entry:
            unit = means.units.get(key)
            published = means.published_drop(means.labels(key), unit) if means.file else None
            return entry(unit, published, means.unpruned(key), lower_is_better=True)

        what = measured(study, self)
        about = f"Relative drop of {what} against the unpruned model, in %."
        return means.table(study, self, cell, about)
