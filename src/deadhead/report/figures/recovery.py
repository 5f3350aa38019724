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
        pairs: dict[str, list[tuple[float, float]]] = {}  # language -> (after one epoch, final)
        for (language, strategy), trials in study.after_one_epoch(self.where).items():
            if strategy not in (None, "none"):
                scores = [(first, final) for first, final in trials.values() if final]
                pairs.setdefault(language, []).extend(scores)
        pairs = {language: scores for language, scores in pairs.items() if scores}
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
        if any(study.after_one_epoch().values()):
            yield 50, cls()


def _row(language: str, first: Sequence[float], final: Sequence[float]) -> Datum:
    share = round(100 * recovery(first, final), 2)
    row = {"language": language, "first": fmean(first), "final": fmean(final)}
    return {**row, "share": share, "n": len(final)}
