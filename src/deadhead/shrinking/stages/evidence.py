"""Evidence: how long layers take, what must be saved, and the loss of the full model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deadhead.layout import SiteKey
from deadhead.rankers.run import frozen
from deadhead.shrinking.allocate import Budget
from deadhead.shrinking.budgets import budgets_for
from deadhead.shrinking.latency import Latency, latency

from .calibration import Calibration, LossAndScore
from .stopwatch import Stopwatch


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Measurements of the full model before anything is chosen."""

    table: Latency | None  # for a target `speedup`
    budgets: Sequence[Budget]
    full: LossAndScore

    def speed_without(self, removed: Mapping[SiteKey, int], factor: float = 1.0) -> float:
        """Predict how many times as fast the model will be; factor: what corrects the table."""
        assert self.table is not None
        saved = 1 - self.table.after(removed) / self.table.whole
        return 1 / (1 - factor * saved)


def gather(calibration: Calibration, watch: Stopwatch) -> Evidence:
    """Time the layers if that matters, find what must be saved, and measure the full model."""
    request, counted, table = calibration.request, calibration.costs, None
    if "speedup" in request.targets:
        with watch.stage("time layers") as progress, frozen(calibration.model, request.seed):
            table = latency(
                calibration.model,
                [site for site in calibration.sites if site.kept],
                calibration.fit[0],
                counted.shape,
                progress=progress,
            )
    budgets = budgets_for(
        request.targets,
        kinds=calibration.kinds,
        layout=calibration.layout,
        costs=counted,
        table=table,
        repair=request.repair,
    )
    return Evidence(table=table, budgets=budgets, full=calibration.measure(watch))
