"""Figures of kind `recovery`: the share of the final score that one epoch reaches."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from deadhead.report.spec import Chart, Figure, Suggested
from deadhead.results import Study
from deadhead.results.cells import matches
from deadhead.results.statistics import recovery, recovery_rows

from .charts import COLOURS, field, panelled, tip, whole


@dataclass(frozen=True, kw_only=True)
class Recovery(Figure):
    """A bar for each language, the mean over trials."""

    kind: ClassVar[str] = "recovery"
    default_title: ClassVar[str] = "Recovery after one epoch"
    help: ClassVar[str] = (
        "The mean over trials of the score after one epoch, in % of the final score."
    )

    def draw(self, study: Study) -> Chart | None:
        pairs: dict[str, list[tuple[float, float]]] = {}  # language -> (after one epoch, final)
        for cell in {cell.trial: cell for cell in study.cells if not cell.unpruned}.values():
            firsts = cell.row(split=f"{cell.split}@1")
            for language, first, final in zip(cell.languages, firsts, cell.main_row, strict=True):
                if first is not None and final and matches(cell, language, self.where):
                    pairs.setdefault(language, []).append((first, final))
        if not pairs:
            return None
        means = [{name: fmean(p[i] for p in both) for name, both in pairs.items()} for i in (0, 1)]
        shares = {name: 100 * recovery(*zip(*both, strict=True)) for name, both in pairs.items()}
        rows = [
            {**row, "share": round(shares[row["language"]], 2), "n": len(pairs[row["language"]])}
            for row in recovery_rows(*means)
        ]
        encoding = {
            "x": field("language", "N", "", sort=list(pairs), axis={"labelAngle": 0}),
            "y": field("share", "Q", "% of the final score after one epoch"),
            "tooltip": [
                tip("language", "N", "language"),
                tip("n", "Q", "trials"),
                tip("share", "Q", "share, %", ".1f"),
                tip("first", "Q", "after one epoch", ".1f"),
                tip("final", "Q", "final", ".1f"),
            ],
        }
        bars = {"mark": {"type": "bar", "color": COLOURS[0]}, "encoding": encoding}
        return whole(panelled(bars, [], 260), rows, self.heading(study))

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        summaries = (cell.summary for cell in study.cells if cell.summary is not None)
        if any("@1/" in " ".join(summary.metrics) for summary in summaries):
            yield 50, cls()
