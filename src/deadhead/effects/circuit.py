"""Is this the circuit? Keep some heads or edges, corrupt all others, and see what remains.

Faithfulness is (kept - empty) / (clean - empty), the metric of the runs: 1 is as good as the whole
model, 0 as bad as corrupting everything in question. Its curve over the share that is kept has two
areas in the benchmark MIB (Mueller et al. 2025): CPR below it, CMD between it and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError
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
from deadhead.ranking.heatmap import altair
from deadhead.registry.options import OptionError, accepts, expected, whole_from

from .effects import Table
from .graph import Edge, EdgeEffects, is_edge, place_of
from .metrics import Metric, mean_of, measured
from .paths import edge_runs
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
Curve = Sequence[float]


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
        return self.areas([self.curve])["cpr"]

    @property
    def cmd(self) -> float:
        """The area between the curve and 1: how far circuits are from the model; 0 is best."""
        return self.areas([self.curve])["cmd"]

    @property
    def controls(self) -> dict[str, dict[str, float]]:
        """CPR and CMD of the circuit, of the reversed order, and the means of random orders."""
        curves = {"circuit": [self.curve], "reverse": [self.reverse], "random": self.random}
        return {name: self.areas(group) for name, group in curves.items() if group}

    def areas(self, curves: Sequence[Curve]) -> dict[str, float]:
        """The mean CPR and CMD of curves; nan if they have a single point."""
        values = np.array(curves)
        if values.shape[1] < 2:
            return {"cpr": math.nan, "cmd": math.nan}
        areas = {"cpr": values, "cmd": abs(1 - values)}
        return {n: float(np.trapezoid(v, self.fractions).mean()) for n, v in areas.items()}

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each fraction."""
        columns = {
            "fraction": self.fractions,
            "kept": self.sizes,
            "faithfulness": self.curve,
            **{name: getattr(self, name) for name in ("low", "high", "reverse")},
        }
        if self.random:
            draws = np.array(self.random)
            columns |= {name: getattr(draws, f)(0).tolist() for f, name in RANDOM.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def save(self, path: str | Path) -> Path:
        """Write all numbers as JSON; the file is whole or absent."""
        areas = {"cpr": self.cpr, "cmd": self.cmd} if len(self.curve) > 1 else {}
        content = {"kind": "faithfulness", "of": self.kind, **vars(self), **areas}
        return write_json(content, path, "faithfulness.json")

    def plot(self) -> Any:
        """The curve with its band, and both controls (an altair chart)."""
        alt = altair("a plot of faithfulness")
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
    count = Annotated[int, whole_from(0)]
    if not accepts(count, random):
        raise OptionError(f"`random` expects {expected(count)}, got {random!r}.", "leave it out")
    parts, shares = _checked(scores), _shares(fractions)
    pairs, draw, curves = check_pairs(clean, corrupt), Random(f"{seed}"), []
    are_edges = isinstance(parts, EdgeEffects) or (isinstance(parts, list) and is_edge(parts[0]))
    prepared = _edges if are_edges else _heads
    with prepared(model, pairs, metric) as runs, reported(progress, "faithfulness") as step:
        if isinstance(parts, list):
            kept = [*dict.fromkeys(runs.chosen(parts))]
            rest = [part for part in runs.every if part not in {*kept}]
            order, shares = kept + draw.sample(rest, len(rest)), (len(kept) / len(runs.every),)
        else:
            values = runs.values(parts)
            key = [-abs(value) if absolute else -value for value in values]
            order = [runs.every[n] for n in sorted(range(len(key)), key=key.__getitem__)]
        sizes = [round(share * len(order)) for share in shares]
        draws = [Random(f"{seed}.{n}").sample(order, len(order)) for n in range(random)]
        full, nothing = (_finite(runs.kept(frozenset(ends))) for ends in (order, ()))
        if float(full.mean()) == float(nothing.mean()):
            raise DataError(
                "the metric is the same with everything corrupted, so there is nothing to keep.",
                "give pairs with different answers, and a metric that differs between them",
            )
        for sequence in (order, order[::-1], *draws):
            known = {len(order): full, 0: nothing}
            for size in sizes:
                if size not in known:
                    known[size] = _finite(runs.kept(frozenset(sequence[:size])))
            curves.append([known[size] for size in sizes])
            step(len(curves), random + 2)
    means = [tuple(float(_share(v, full, nothing)) + 0.0 for v in curve) for curve in curves]
    low, high = zip(*_band(curves[0], full, nothing, seed), strict=True)
    return Faithfulness(
        fractions=shares,
        sizes=tuple(sizes),
        curve=means[0],
        low=low,
        high=high,
        reverse=means[1],
        random=tuple(means[2:]),
        clean=float(full.mean()),
        empty=float(nothing.mean()),
        examples=len(full),
        kind="edges" if are_edges else "heads",
    )


def _checked(scores: Any) -> Any:
    """Scores, or a list of heads or edges."""
    if isinstance(scores, EdgeEffects | Ranking):
        return scores
    if isinstance(scores, Mapping) and not any(map(is_edge, scores)):
        return scores
    if isinstance(scores, str | Head | Edge) or not isinstance(scores, Iterable):
        raise DataError(
            f"expected scores, or a list of heads or edges, got {scores!r}.",
            'put it in a list: ["encoder.0.3"], or ["encoder.0.3 -> output"]',
        )
    parts = list(scores)
    if not parts:
        raise DataError("there is nothing to keep.", "name at least one head or edge")
    return parts


def _shares(fractions: Any) -> tuple[float, ...]:
    try:
        shares = tuple(map(float, fractions))
    except (TypeError, ValueError):
        shares = ()
    if not shares or any(not 0 <= share <= 1 for share in shares) or [*shares] != sorted(shares):
        raise DataError(
            f"`fractions` expects rising shares from 0 to 1, got {fractions!r}.",
            "for instance fractions=(0.01, 0.1, 0.5, 1)",
        )
    return shares


class _Runs(NamedTuple):
    """Runs of the clean batches with some heads or edges kept and all others corrupted."""

    every: list[Any]
    chosen: Callable[[list[Any]], Iterable[Any]]  # those of a list
    values: Callable[[Any], Sequence[float]]  # the score of each
    kept: Callable[[frozenset[Any]], Tensor]  # the metric of each example


@contextmanager
def _edges(model: nn.Module, pairs: Pairs, metric: Metric) -> Iterator[_Runs]:
    """An edge is its place in a table of targets x sources."""
    nodes = Nodes(model)
    names = nodes.source_names, nodes.target_names
    with edge_runs(nodes, pairs, metric) as circuits:
        every = [(row, column) for row, column in circuits.exists.nonzero().tolist()]

        def chosen(edges: list[Any]) -> list[Any]:
            return circuits.check(place_of(edge, *names) for edge in edges)

        def values(scores: EdgeEffects) -> list[float]:
            if (scores.sources, scores.targets) != names or len(scores) != len(every):
                raise DataError(
                    f"the model has {len(every)} edges, and the scores are of {len(scores)}, or "
                    "of other ones.",
                    "score all of them: edge_effects(model, clean, corrupt, metric)",
                )
            return [-scores.matrix[place] for place in every]  # corruption lowers the metric

        def kept(edges: frozenset[Any]) -> Tensor:
            patched = circuits.exists.clone()
            for place in edges:
                patched[place] = False
            return circuits(patched)

        yield _Runs(every, chosen, values, kept)


@contextmanager
def _heads(model: nn.Module, pairs: Pairs, metric: Metric) -> Iterator[_Runs]:
    layout, per_example, fills = discover(model), PerExample(metric, "metric"), []
    with frozen(model, seed=0), torch.no_grad():
        for _, batch in pairs:
            with captured(model) as fill:
                forward(model, on_device(batch, model))
            fills.append(fill)

        def values(scores: Any) -> list[float]:
            if isinstance(scores, Ranking):
                scores = scores.scores_for(layout)
            by_head = {Head.parse(h) if isinstance(h, str) else h: v for h, v in scores.items()}
            listed = [float(by_head.get(head, math.nan)) for head in layout]
            without = [str(h) for h, v in zip(layout, listed, strict=True) if math.isnan(v)]
            if without:
                raise DataError(
                    f"{len(without)} heads of the model have no score, such as {without[0]}.",
                    "score all of them: rank(model, batches, method, closed=())",
                )
            return listed

        def kept(heads: frozenset[Any]) -> Tensor:
            closed, metrics = [head for head in layout if head not in heads], []
            for (batch, _), fill in zip(pairs, fills, strict=True):
                with gated(model, closed=closed, fill=fill):
                    metrics.append(measured(model, batch, per_example))
            return torch.cat(metrics)

        yield _Runs([*layout], layout.check, values, kept)


def _finite(values: Tensor) -> Tensor:
    mean_of([values], "run with a part corrupted")
    return values.cpu().double()


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
