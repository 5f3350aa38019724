"""Figures of kind `ends`: how much more is lost without the bottom layers than without the top."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from deadhead.report.spec import Chart, Figure, Scored, word
from deadhead.results import Study
from deadhead.results.statistics import LayerDifference, bottom_minus_top, group_means
from deadhead.tasks.metrics import sign

from .charts import curves
from .curve_chart import GROUPS, REMOVAL, position

ENDS = ("top", "bottom")
# end ("" for unpruned) -> layers removed -> trial -> score
ByEnd = dict[str, dict[float, dict[str, float]]]


@dataclass(frozen=True, kw_only=True)
class Ends(Scored, Figure):
    """A line for each language, or for each class of languages."""

    kind = "ends"
    default_title = "Bottom against top layers"
    help = "Above 0 where the bottom layers matter more; the mean of the languages of a class."

    group: str = word(*GROUPS, default="")

    def draw(self, study: Study) -> Chart | None:
        scores = self._scores(study)
        differences = {
            language: both for language in scores if (both := _difference(scores[language]))
        }
        up = min(map(sign, self.metrics(study)), default=1)
        lines = _class_means(differences, self.group) if self.group else differences
        rows = [
            {"x": k, "y": round(up * value, 4), "line": line, "panel": "", "n": 1}
            for line, difference in lines.items()
            for k, value in difference.by_k.items()
        ]
        if not rows:
            return None
        return curves(
            rows,
            self.heading,
            x="layers pruned",
            y="drop without bottom - without top, %",
            line=self.group.replace("_", " "),
        )

    def _scores(self, study: Study) -> dict[str, ByEnd]:
        scores: dict[str, ByEnd] = {}
        for (language, *removal), mean in self.means(
            study, ("language", *REMOVAL), self.where
        ).items():
            end, k = position(*removal)
            if mean.numbers and end in ("", *ENDS) and isinstance(k, float):
                by_k = scores.setdefault(language, {}).setdefault(end, {})
                by_k.setdefault(k, {}).update({one.trial: one.value for one in mean.numbers})
        return scores


def _difference(scores: ByEnd) -> LayerDifference | None:
    full = [value for trials in scores.get("", {}).values() for value in trials.values()]
    top, bottom = (
        {k: list(trials.values()) for k, trials in scores.get(end, {}).items()} for end in ENDS
    )
    if not full or not fmean(full) or not top.keys() & bottom.keys():
        return None
    return bottom_minus_top(full, top, bottom)


def _class_means(
    differences: Mapping[str, LayerDifference], group: str
) -> dict[str, LayerDifference]:
    """The mean of each class of languages at every number of layers."""
    by_class: dict[str, dict[float, float]] = {}
    for k in sorted({k for both in differences.values() for k in both.by_k}):
        drops = {language: both.by_k[k] for language, both in differences.items() if k in both.by_k}
        for name, value in group_means(drops, group).items():
            by_class.setdefault(name, {})[k] = value
    return {name: LayerDifference(by_k, fmean(by_k.values())) for name, by_k in by_class.items()}
