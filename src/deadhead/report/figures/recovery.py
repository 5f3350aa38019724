"""Figures of kind `recovery`: the share of the final score that one epoch reaches."""

from collections.abc import Sequence
from statistics import fmean

from deadhead.report.spec import Chart, Figure, Suggested
from deadhead.results import Study
from deadhead.results.statistics import recovery

from .charts import COLOURS, Datum, field, panelled, tip, whole


class Recovery(Figure):
    """A bar for each language, the mean over trials."""

    kind = "recovery"
    default_title = "Recovery after one epoch"
    help = "The mean over trials of the score after one epoch, in % of the final score."

    def draw(self, study: Study) -> Chart | None:
        pairs = self._pairs(study)
        if not pairs:
            return None
        rows = [_row(language, *zip(*scores, strict=True)) for language, scores in pairs.items()]
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
        return whole(panelled(bars, [], 260), rows, self.heading)

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        yield 50, cls()

    def _pairs(self, study: Study) -> dict[str, list[tuple[float, float]]]:
        """The scores of pruned trials after one epoch and at the end, by language."""
        pairs: dict[str, list[tuple[float, float]]] = {}
        axes = ("language", "strategy")
        finals = study.means(axes, self.where)
        for (language, strategy), mean in study.means(axes, self.where, split="@1").items():
            final = {one.trial: one.value for one in finals[language, strategy].numbers}
            first = {one.trial: one.value for one in mean.numbers if final.get(one.trial)}
            if strategy not in (None, "none"):
                both = [(score, final[trial]) for trial, score in first.items()]
                pairs.setdefault(language, []).extend(both)
        return {language: scores for language, scores in pairs.items() if scores}


def _row(language: str, first: Sequence[float], final: Sequence[float]) -> Datum:
    share = round(100 * recovery(first, final), 2)
    row = {"language": language, "first": fmean(first), "final": fmean(final)}
    return {**row, "share": share, "n": len(final)}
