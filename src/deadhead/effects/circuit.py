"""Is this the circuit? Keep some heads or edges, corrupt all others, and see what remains.

Faithfulness is (kept - empty) / (clean - empty), the metric of the runs: 1 is as good as the whole
model, 0 as bad as corrupting everything in question. Its curve over the share that is kept has two
areas in the benchmark MIB (Mueller et al. 2025): CPR below it, CMD between it and 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, MissingExtra
from deadhead.files.writing import write_json
from deadhead.forward import forward, on_device
from deadhead.heads.captured import captured
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.layout import Batch, Head
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.run import check_seed, frozen, refuse_resampling
from deadhead.ranking import Ranking

from .effects import Table
from .graph import ARROW, Edge, EdgeEffects, place_of
from .metrics import Metric, mean_of, measured
from .paths import Circuits, edge_runs
from .stream import Nodes

FRACTIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # those of MIB
RESAMPLES = 1000
RANDOM = {"mean": "random_mean", "min": "random_low", "max": "random_high"}
BANDS = {  # of a plot: the columns of its line, its lower and its upper end
    "circuit": ("faithfulness", "low", "high"),
    "reverse": ("reverse", "reverse", "reverse"),
    "random": tuple(RANDOM.values()),
}
Parts = Mapping[Head, float] | Iterable[Head | Edge | str]
Pairs = Sequence[tuple[Batch, Batch]]


@dataclass(frozen=True, kw_only=True)
class Faithfulness(Table):
    """How much of the metric each share of heads or edges keeps.

    curve: the faithfulness for each of `fractions`; low, high: its 95 % band over the pairs.
    reverse: that of the lowest instead of the highest. random: that of shuffled orders, in rows.
    clean, empty: the mean metric with nothing corrupted, and with everything.
    """

    fractions: tuple[float, ...]
    sizes: tuple[int, ...]
    curve: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    reverse: tuple[float, ...]
    random: tuple[tuple[float, ...], ...]
    clean: float
    empty: float
    examples: int
    kind: str  # heads or edges

    @property
    def cpr(self) -> float:
        """The area below the curve: how much performance small circuits keep."""
        return self.area(self.curve)

    @property
    def cmd(self) -> float:
        """The area between the curve and 1: how far circuits are from the model; 0 is best."""
        return self._distance(self.curve)

    def area(self, curve: Sequence[float]) -> float:
        """The area below a curve over the fractions; nan of a single one."""
        if len(curve) < 2:
            return float("nan")
        return float(np.trapezoid(curve, self.fractions))

    def _distance(self, curve: Sequence[float]) -> float:
        return self.area([abs(1 - value) for value in curve])

    @property
    def controls(self) -> dict[str, dict[str, float]]:
        """CPR and CMD of the circuit, of the reversed order, and the means of random orders."""
        curves = {"circuit": [self.curve], "reverse": [self.reverse], "random": self.random}
        return {
            name: {
                "cpr": float(np.mean([*map(self.area, group)])),
                "cmd": float(np.mean([*map(self._distance, group)])),
            }
            for name, group in curves.items()
            if group
        }

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each fraction."""
        columns: dict[str, Sequence[float]] = {
            "fraction": self.fractions,
            "kept": self.sizes,
            "faithfulness": self.curve,
            **{name: getattr(self, name) for name in ("low", "high", "reverse")},
        }
        if self.random:
            for name in ("mean", "min", "max"):
                draws = getattr(np.array(self.random), name)(0)
                columns[RANDOM[name]] = draws.tolist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def save(self, path: str | Path) -> Path:
        """Write all numbers as JSON; the file is whole or absent."""
        areas = {"cpr": self.cpr, "cmd": self.cmd} if len(self.curve) > 1 else {}
        content = {"kind": "faithfulness", "of": self.kind, **vars(self), **areas}
        return write_json(content, path, "faithfulness.json")

    def plot(self) -> Any:
        """The curve with its band, and both controls (an altair chart)."""
        try:
            import altair as alt
        except ImportError:
            raise MissingExtra("altair", "report", "a plot of faithfulness") from None
        values = [
            {"kept": row["fraction"], "order": order}
            | {"faithfulness": row[middle], "low": row[low], "high": row[high]}
            for row in self.rows()
            for order, (middle, low, high) in BANDS.items()
            if middle in row
        ]
        share = alt.Scale(type="log") if min(self.fractions) > 0 else alt.Scale()
        base = alt.Chart(alt.InlineData(values=values)).encode(
            x=alt.X("kept:Q", title=f"share of {self.kind} kept", scale=share),
            color=alt.Color("order:N", title=None, legend=alt.Legend(orient="bottom")),
        )
        across = {"y": alt.Y("low:Q", title="faithfulness"), "y2": "high:Q"}
        band = base.mark_area(opacity=0.2).encode(**across)
        line = base.mark_line(point=True).encode(y="faithfulness:Q")
        title = f"CPR {self.cpr:.2f}, CMD {self.cmd:.2f}; {self.examples} pairs"
        return alt.layer(band, line).properties(width=300, height=220, title=title)


def faithfulness(
    model: nn.Module,
    scores: EdgeEffects | Ranking | Parts,
    clean: Batch | Iterable[Batch],
    corrupt: Batch | Iterable[Batch],
    metric: Metric,
    *,
    fractions: Sequence[float] = FRACTIONS,
    absolute: bool = True,
    random: int = 5,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Faithfulness:
    """How much of the metric remains if all but the highest heads or edges are corrupted.

    Args:
        scores: of edges, as `edge_effects` gives them, or of heads: a ranking, or a number for each
            head. Or a list of heads or of edges, which are kept and the rest corrupted; then
            there is one point, and no `fractions`.
        clean, corrupt, metric, progress: as for `edge_effects`. A corrupted head gives what it
            gives in the corrupt run to all that read it; inputs and neurons remain clean.
        fractions: the shares of heads or edges to keep.
        absolute: rank by the size of a score, as MIB does for CMD; otherwise with its sign, as MIB
            does for CPR: heads with the highest score first, and edges whose corruption lowers
            the metric most.
        random: how many random orders to compare with.
        seed: of the random orders, and of the band.

    >>> result = faithfulness(model, edges, clean, corrupt, metric)
    >>> result.cpr, result.controls
    """
    check_seed(seed)
    refuse_resampling(model)
    pairs = check_pairs(clean, corrupt)
    parts: Any = scores
    if not isinstance(scores, EdgeEffects | Ranking | Mapping):
        parts = list(scores)
    if are_edges := _are_edges(parts):
        parts = parts if isinstance(parts, EdgeEffects) else list(parts)
    curves: list[list[Tensor]] = []
    runs = _runs(model, pairs, metric, edges=are_edges)
    with runs as run, reported(progress, "faithfulness") as count:
        order, chosen = run.order(parts, absolute, Random(f"{seed}"))
        shares = _checked(fractions) if chosen is None else (chosen / len(order),)
        sizes = [round(share * len(order)) for share in shares]
        draws = [Random(f"{seed}.{n}").sample(order, len(order)) for n in range(random)]
        ends = {len(order): run(frozenset(order)), 0: run(frozenset())}
        for sequence in (order, order[::-1], *draws):
            known = dict(ends)
            for size in sizes:
                if size not in known:
                    known[size] = run(frozenset(sequence[:size]))
            curves.append([known[size] for size in sizes])
            count(len(curves), random + 2)
    full, nothing = ends[len(order)], ends[0]
    for values in (full, nothing, *itertools.chain(*curves)):
        mean_of([values], "run with a part corrupted")
    if float(full.mean()) == float(nothing.mean()):
        raise DataError(
            "the metric is the same with everything corrupted, so there is nothing to keep.",
            "give pairs with different answers, and a metric that tells them apart",
        )
    means = [tuple(float(_share(v, full, nothing)) + 0.0 for v in curve) for curve in curves]
    low, high = zip(*_band(curves[0], full, nothing, seed), strict=True)
    return Faithfulness(
        fractions=tuple(shares),
        sizes=tuple(sizes),
        curve=means[0],
        low=low,
        high=high,
        reverse=means[1],
        random=tuple(means[2:]),
        clean=float(full.mean()),
        empty=float(nothing.mean()),
        examples=len(full),
        kind=run.kind,
    )


def _checked(fractions: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(map(float, fractions))
    if not shares or any(not 0 <= share <= 1 for share in shares) or [*shares] != sorted(shares):
        raise DataError(
            f"`fractions` expects rising shares from 0 to 1, got {fractions!r}.",
            "for instance fractions=(0.01, 0.1, 0.5, 1)",
        )
    return shares


def _are_edges(parts: Any) -> bool:
    if isinstance(parts, EdgeEffects | Ranking):
        return isinstance(parts, EdgeEffects)
    first = next(iter(parts), None)
    return isinstance(first, Edge) or (isinstance(first, str) and ARROW.strip() in first)


@contextmanager
def _runs(
    model: nn.Module, pairs: Pairs, metric: Metric, *, edges: bool
) -> Iterator[_Edges | _Heads]:
    if edges:
        with edge_runs(Nodes(model), pairs, metric) as circuits:
            yield _Edges(circuits)
    else:
        with frozen(model, seed=0), torch.no_grad():
            yield _Heads(model, pairs, metric)


class _Edges:
    """Runs the clean batches with some edges kept: places in a table of targets x sources."""

    kind = "edges"

    def __init__(self, circuits: Circuits):
        self.circuits = circuits
        self.names = circuits.nodes.source_names, circuits.nodes.target_names

    def order(self, parts: Any, absolute: bool, draw: Random) -> tuple[list[Any], int | None]:
        """All edges, the highest first; and of a list how many it has."""
        every = [(row, column) for row, column in self.circuits.exists.nonzero().tolist()]
        if isinstance(parts, list):
            chosen = [place_of(edge, *self.names) for edge in parts]
            self.circuits.check(chosen)
            return _first(chosen, every, draw)
        if (parts.sources, parts.targets) != self.names or len(parts) != len(every):
            raise DataError(
                f"the model has {len(every)} edges, and the scores are of {len(parts)}, or of "
                "other ones.",
                "score all of them: edge_effects(model, clean, corrupt, metric)",
            )
        values = np.abs(parts.matrix) if absolute else -parts.matrix
        return sorted(every, key=lambda place: -values[place]), None

    def __call__(self, kept: frozenset[Any]) -> Tensor:
        """The metric of each example."""
        patched = self.circuits.exists.clone()
        for place in kept:
            patched[place] = False
        return self.circuits(patched).cpu().double()


class _Heads:
    """Runs them with some heads kept; the others give what they give in the corrupt run."""

    kind = "heads"

    def __init__(self, model: nn.Module, pairs: Pairs, metric: Metric):
        self.model, self.pairs, self.metric = model, pairs, PerExample(metric, "metric")
        self.layout, self.fills = discover(model), []
        for _, batch in pairs:
            with captured(model) as fill:
                forward(model, on_device(batch, model))
            self.fills.append(fill)

    def order(self, parts: Any, absolute: bool, draw: Random) -> tuple[list[Any], int | None]:
        if isinstance(parts, list):
            return _first([*self.layout.check(parts)], [*self.layout], draw)
        if isinstance(parts, Ranking):
            parts = parts.scores_for(self.layout)
        scores = {Head.parse(h) if isinstance(h, str) else h: float(v) for h, v in parts.items()}
        without = [str(head) for head in self.layout if math.isnan(scores.get(head, math.nan))]
        if without:
            raise DataError(
                f"{len(without)} heads of the model have no score, such as {without[0]}.",
                "score all of them: rank(model, batches, method, closed=())",
            )
        values = {head: abs(scores[head]) if absolute else scores[head] for head in self.layout}
        return sorted(values, key=lambda head: -values[head]), None

    def __call__(self, kept: frozenset[Any]) -> Tensor:
        closed, values = [head for head in self.layout if head not in kept], []
        for (batch, _), fill in zip(self.pairs, self.fills, strict=True):
            with gated(self.model, closed=closed, fill=fill):
                values.append(measured(self.model, batch, self.metric))
        return torch.cat(values).cpu().double()


def _first(chosen: list[Any], every: list[Any], draw: Random) -> tuple[list[Any], int]:
    """The chosen ones, then the others at random."""
    if not chosen:
        raise DataError("there is nothing to keep.", "name at least one head or edge")
    rest = [place for place in every if place not in set(chosen)]
    return [*chosen, *draw.sample(rest, len(rest))], len(set(chosen))


def _share(values: Tensor, full: Tensor, nothing: Tensor) -> Tensor:
    return (values.mean(-1) - nothing.mean(-1)) / (full.mean(-1) - nothing.mean(-1))


def _band(
    curve: Sequence[Tensor], full: Tensor, nothing: Tensor, seed: int
) -> list[tuple[float, float]]:
    """The 95 % band of a curve, by drawing the pairs again."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(full), (RESAMPLES, len(full)), generator=generator)
    levels = torch.tensor([0.025, 0.975], dtype=torch.float64)
    return [
        tuple(_share(v[drawn], full[drawn], nothing[drawn]).nanquantile(levels).tolist())
        for v in curve
    ]
