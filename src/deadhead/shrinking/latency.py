"""Times of the layers of a model on this machine, with each number of units that can remain.

Layers of the same shape are timed once: copies of the smallest module that holds the layer are cut
to some numbers of units and run in turns with the uncut one, on the inputs that the module gets in
a run of the model. The rest of the model is a constant. Functions are timed in turns, so that a
busy machine slows all of them, and of the times of a call the lower quartile counts: other programs
only ever slow a call down.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Any

import numpy as np
import torch
from torch import nn

from deadhead.display.progress import Progress, silent
from deadhead.forward import device_of, forward
from deadhead.heads.cut import cut
from deadhead.heads.site import Site
from deadhead.layout import Batch, SiteKey

from .costs import InputShape, Prices, run_watched, sample, units_left

WARM_UP = 2  # rounds
POINTS = 12  # numbers of units that are timed; heads: all of them up to MOST_HEADS
MOST_HEADS = 16
AT_ONCE = 4  # copies of a layer in memory
SECONDS = 15.0  # to time layers of one shape, or whole models, roughly
SLOW = 1.0  # seconds; longer runs of a model are not warmed up: each takes its time
SHORTEST = 0.002  # seconds; shorter calls are timed several at once
ROUNDS = (3, 40)  # least and most


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The time of a run of the whole model, and of its layers with each number of units left."""

    whole: float  # seconds
    layers: Prices

    def without_layers(
        self, before: Sequence[Site], after: Sequence[Site], seconds: float
    ) -> "Latency":
        """The times of a model that lost whole layers. before, after: its sites.

        seconds: a run of it.
        """
        keys = {(site.kind, id(site.core)): site.key for site in before}
        layers = {site.key: self.layers[keys[site.kind, id(site.core)]] for site in after}
        return Latency(whole=seconds, layers=layers)

    def after(self, removed: Mapping[SiteKey, int], factor: float = 1.0) -> float:
        """The predicted seconds of a run once each layer has lost this many units.

        factor: what corrects the table.
        """
        saved = 0.0
        for place, count in removed.items():
            table = self.layers[place]
            saved += table[-1] - table[len(table) - 1 - count]
        return self.whole - factor * saved


def in_turns(
    calls: Sequence[Callable[[], Any]],
    device: torch.device,
    rounds: int,
    *,
    repeats: int = 1,
    warm_up: int = WARM_UP,
) -> list[list[float]]:
    """The seconds that each function takes in each round; `repeats` calls in a row are one time.

    warm_up: rounds before those, which do not count.

    On a CPU with one thread they are seconds of the processor, where other programs do not count.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    now = time.process_time if alone else time.perf_counter
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + warm_up):
        for call, seconds in zip(calls, times, strict=True):
            wait_for(device)
            start = now()
            for _ in range(repeats):
                call()
            wait_for(device)
            if turn >= warm_up:
                seconds.append((now() - start) / repeats)
    return times


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.no_grad()
def latency(
    model: nn.Module,
    sites: Sequence[Site],
    batch: Batch,
    on: InputShape,
    *,
    progress: Progress = silent,
) -> Latency:
    """Time the whole model, and its layers of each shape. The model must be in evaluation mode."""
    feed = sample(model, batch, on)
    homes = {site.key: _home(model, site) for site in sites}
    examples: dict[str, Site] = {}
    for site in sites:
        examples.setdefault(_shape(model, site), site)
    timed = {homes[site.key] for site in examples.values()}
    calls = _calls(model, set(homes.values()), timed, feed)
    device = device_of(model)
    before = _seconds_of(partial(forward, model, feed), device)
    shapes: dict[str, dict[int, float]] = {}
    for number, (shape, site) in enumerate(examples.items()):
        progress(number, len(examples), "timing layers")
        home = homes[site.key]
        shapes[shape] = (
            _times(model.get_submodule(home), site, calls[home][0], device) if home in calls else {}
        )
    after = _seconds_of(partial(forward, model, feed), device)
    layers: Prices = {}
    for site in sites:
        times = shapes[_shape(model, site)]
        uses = len(site.uses) * len(calls.get(homes[site.key], ()))
        counts = range(1 + units_left(site))
        layers[site.key] = [uses * _at(times, site, count) for count in counts]
    return Latency(whole=_quick([*before, *after]), layers=layers)


def time_models(
    models: Sequence[nn.Module], batch: Batch, on: InputShape, *, limit: float = SECONDS
) -> list[float]:
    """The seconds of a run of each model, timed in turns. They must be in evaluation mode.

    limit: the seconds that all rounds take, roughly; slow models take longer.
    """
    feed = sample(models[0], batch, on)
    device = next(models[0].parameters()).device
    with torch.no_grad():
        calls = [partial(forward, model, feed) for model in models]
        (trial,) = in_turns(calls[:1], device, 1, warm_up=1)
        rounds, repeats = _rounds(len(calls) * trial[0], limit), _repeats(trial[0])
        # the quick ones of three or more times count, so a slow start does not matter
        warm_up = WARM_UP if trial[0] < SLOW else 0
        first, *others = in_turns(calls, device, rounds, repeats=repeats, warm_up=warm_up)
    return [_quick(first), *map(_quick, others)]


def _shape(model: nn.Module, site: Site) -> str:
    """Describe a layer as text; layers with the same text are timed once."""
    module = type(model.get_submodule(_home(model, site))).__name__
    tensors = [
        f"{role}.{name}{tuple(getattr(part.module, name).shape)}"
        for role, part in site.parts.items()
        for name, _ in part.tensors
    ]
    return f"{site.kind} of {module}: {len(site.kept)} left, {' '.join(tensors)}"


def _home(model: nn.Module, site: Site) -> str:
    """The path of the smallest module that holds all parts of a layer."""
    modules = {id(part.module) for part in site.parts.values()}
    path = site.path
    while not modules <= {id(module) for module in model.get_submodule(path).modules()}:
        path = path.rpartition(".")[0]
    return path


def _calls(
    model: nn.Module, paths: set[str], inputs_of: set[str], feed: Batch
) -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The calls of these modules in a run of the model, with the arguments of some.

    inputs_of: those whose arguments are kept; those of all layers may not fit into memory.
    """
    calls: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}

    def remember(path: str, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        calls.setdefault(path, []).append((args, kwargs) if path in inputs_of else ((), {}))

    run_watched(model, feed, {model.get_submodule(p): partial(remember, p) for p in paths})
    return calls


def _times(
    module: nn.Module, site: Site, call: tuple[tuple[Any, ...], dict[str, Any]],
    device: torch.device,
) -> dict[int, float]:  # fmt: skip
    """The seconds of a module with each number of units of the grid left in one of its layers."""
    args, kwargs = call
    whole = partial(module, *args, **kwargs)
    count = units_left(site)
    grid = [k for k in _grid(site) if k < count]
    (trial,) = in_turns([whole], device, 1)
    rounds, repeats = _rounds(trial[0] * (len(grid) + len(grid) / AT_ONCE)), _repeats(trial[0])
    base: list[float] = []
    ratios: dict[int, float] = {}
    for start in range(0, len(grid), AT_ONCE):
        counts = grid[start : start + AT_ONCE]
        copies = [_cut_copy(module, site, k) for k in counts]
        calls = [whole, *(partial(smaller, *args, **kwargs) for smaller in copies)]
        first, *others = in_turns(calls, device, rounds, repeats=repeats)
        base += first
        for k, other in zip(counts, others, strict=True):
            ratios[k] = _quick(other) / _quick(first)
    seconds = _quick(base) if base else trial[0]
    return {**{k: ratio * seconds for k, ratio in ratios.items()}, count: seconds}


def _cut_copy(module: nn.Module, site: Site, units: int) -> nn.Module:
    smaller, own = copy.deepcopy((module, site))
    with torch.inference_mode(False):
        cut(own, own.first(units))
    return smaller


def _grid(site: Site) -> list[int]:
    """The numbers of units to time."""
    count = units_left(site)
    step = 1 if site.kind == "heads" else _multiple(count)
    numbers = [*range(0, count, step), count]
    if len(numbers) <= (MOST_HEADS + 1 if site.kind == "heads" else POINTS):
        return numbers
    return sorted({numbers[round(i * (len(numbers) - 1) / POINTS)] for i in range(POINTS + 1)})


def _multiple(neurons: int) -> int:
    """Only multiples of this number of neurons are offered: matrices of other widths are slow."""
    for least, step in ((1024, 64), (512, 32), (128, 16), (32, 8)):
        if neurons >= least:
            return step
    return 1


def _at(times: Mapping[int, float], site: Site, units: int) -> float:
    """The seconds with this number of units left, on the line between the two nearest times.

    Neurons count as the next multiple that is offered, so that nothing in between pays.
    """
    if not times:  # the data do not run this layer
        return 0.0
    count = max(times)
    if site.kind == "neurons":
        step = _multiple(count)
        units = min(count, -(-units // step) * step)
    return float(np.interp(units, sorted(times), [times[k] for k in sorted(times)]))


def _quick(times: list[float]) -> float:
    """The lower quartile."""
    return times[0] if len(times) < 2 else quantiles(times, n=4, method="inclusive")[0]


def _seconds_of(call: Any, device: torch.device) -> list[float]:
    (trial,) = in_turns([call], device, 1)
    (times,) = in_turns([call], device, _rounds(4 * trial[0]), repeats=_repeats(trial[0]))
    return times


def _rounds(seconds: float, limit: float = SECONDS) -> int:
    """Return the number of rounds of this length to time."""
    return int(min(max(limit / max(seconds, 1e-6), ROUNDS[0]), ROUNDS[1]))


def _repeats(seconds: float) -> int:
    return max(1, round(SHORTEST / max(seconds, 1e-6)))
