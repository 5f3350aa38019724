"""Figures of kind `epochs`: the training loss over the epochs of each trial's last training."""

from deadhead.report.labels import joined
from deadhead.report.spec import Chart, Figure, Suggested
from deadhead.results import Study

from .charts import curves, point

MOST_LINES = 8


class Epochs(Figure):
    """A line for each removal (for each strategy, if removals are many), a panel for each task."""

    kind = "epochs"
    default_title = "Learning curves"
    help = (
        "Loss on the training set after each epoch of the last training; bands are one "
        "standard deviation over trials."
    )

    def draw(self, study: Study) -> Chart | None:
        losses: dict[tuple[str, str, float], list[float]] = {}
        line = "remove" if len(study.labels("remove")) <= MOST_LINES else "strategy"
        for trial in study.chosen(self.where):
            axes = trial.cell.axes
            panel = joined(axes.get("task")) if "task" in study.axes else ""
            epochs = trial.record.epochs
            last = [e.get("loss") for e in epochs if e.get("step") == epochs[-1].get("step")]
            for nth, loss in enumerate(last, 1):
                if isinstance(loss, int | float):
                    key = (panel, joined(axes.get(line)) or "none", float(nth))
                    losses.setdefault(key, []).append(loss)
        if len({x for _, _, x in losses}) < 2:
            return None
        rows = [
            {"x": x, "line": name, "panel": panel} | point(losses[panel, name, x], 4)
            for panel, name, x in sorted(losses, key=lambda key: key[2])
        ]
        return curves(rows, self.heading, x="epoch", y="training loss", line="removed", form=".3f")

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        yield 60, cls()
