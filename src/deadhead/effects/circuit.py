"""Is this the circuit? Keep some heads or edges, corrupt all others, and see what remains.

Faithfulness is (kept - empty) / (clean - empty), the metric of the runs: 1 is as good as the whole
model, 0 as bad as corrupting everything in question. Its curve over the share that is kept has two
areas in the benchmark MIB (Mueller et al. 2025): CPR below it, CMD between it and 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, MissingExtra
from deadhead.forward import forward, on_device
from deadhead.heads.captured import captured
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.layout import Batch, Head
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.run import check_seed, frozen, refuse_resampling
from deadhead.ranking import Ranking

from .graph import ARROW, Edge, EdgeEffects, place_of, written
from .metrics import Metric, mean_of, moved
from .paths import Circuits
from .stream import Nodes

if TYPE_CHECKING:
    import pandas

FRACTIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # those of MIB
RESAMPLES = 1000
Parts = Mapping[Head, float] | Iterable[Head | Edge | str]
Pairs = Sequence[tuple[Batch, Batch]]


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
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
        return self.area([abs(1 - value) for value in self.curve])

    def area(self, curve: Sequence[float]) -> float:
        """The area below a curve over the fractions; nan of a single one."""
        if len(curve) < 2:
            return float("nan")
        return float(np.trapezoid(curve, self.fractions))

    @property
    def controls(self) -> dict[str, dict[str, float]]:
        """CPR and CMD of the circuit, of the reversed order, and the means of random orders."""
        curves = {"circuit": [self.curve], "reverse": [self.reverse], "random": self.random}
        return {
            name: {
                "cpr": float(np.mean([self.area(c) for c in group])),
                "cmd": float(np.mean([self.area([abs(1 - v) for v in c]) for c in group])),
            }
            for name, group in curves.items()
            if group
        }

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each fraction."""
        names = ("fractions", "sizes", "curve", "low", "high", "reverse")
        draws = np.array(self.random).reshape(-1, len(self.fractions))
        rows = []
        for place, values in enumerate(zip(*(getattr(self, n) for n in names), strict=True)):
            row = dict(zip(("fraction", "kept", "faithfulness", *names[3:]), values, strict=True))
            if len(draws):
                drawn = draws[:, place]
                row |= {"random_mean": drawn.mean(), "random_low": drawn.min()}
                row["random_high"] = drawn.max()
            rows.append({name: float(v) if name != "kept" else v for name, v in row.items()})
        return rows

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", "report", "a data frame") from None
        return pandas.DataFrame(self.rows())

    def save(self, path: str | Path) -> Path:
        """Write all numbers as JSON; the file is whole or absent."""
        areas = {"cpr": self.cpr, "cmd": self.cmd} if len(self.curve) > 1 else {}
        return written({"kind": "faithfulness", "of": self.kind, **vars(self), **areas}, path)

    def plot(self) -> Any:
        """The curve with its band, and both controls (an altair chart)."""
        try:
            import altair as alt
        except ImportError:
            raise MissingExtra("altair", "report", "a plot of faithfulness") from None
        values = []
        for row in self.rows():
            for name, of in (("circuit", ""), ("reverse", ""), ("random", "random_")):
                middle = {"circuit": "faithfulness", "reverse": "reverse"}.get(name, "random_mean")
                if middle in row:
                    low, high = (
                        (row[middle],) * 2
                        if name == "reverse"
                        else (row[f"{of}low"], row[f"{of}high"])
                    )
                    point = {"kept": row["fraction"], "faithfulness": row[middle]}
                    values.append({**point, "order": name, "low": low, "high": high})
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
    parts = scores if isinstance(scores, EdgeEffects | Ranking | Mapping) else list(scores)
    runs: _Runs = (_Edges if _are_edges(parts) else _Heads)(model, pairs, metric)
    curves: list[list[Tensor]] = []
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
    low, high = _band(curves[0], full, nothing, seed)
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
    shares = tuple(fractions)
    if not shares or any(not 0 <= share <= 1 for share in shares) or [*shares] != sorted(shares):
        raise DataError(
            f"`fractions` expects rising shares from 0 to 1, got {fractions!r}.",
            "for instance fractions=(0.01, 0.1, 0.5, 1)",
        )
    return shares


def _are_edges(parts: Any) -> bool:
    if isinstance(parts, list) and parts:
        return isinstance(parts[0], Edge) or (isinstance(parts[0], str) and ARROW[1:3] in parts[0])
    return isinstance(parts, EdgeEffects)


class _Runs(ExitStack):
    """Runs the clean batches with only some parts kept, while it is open."""

    kind: str

    def __init__(self, model: nn.Module, pairs: Pairs, metric: Metric):
        super().__init__()
        self.model, self.pairs, self.metric = model, pairs, metric

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise
        return self

    def prepare(self) -> None: ...

    def order(self, parts: Any, absolute: bool, draw: Random) -> tuple[list[Any], int | None]:
        """All parts, the highest first; and of a list how many it has."""
        raise NotImplementedError

    def __call__(self, kept: frozenset[Any]) -> Tensor:
        """The metric of each example."""
        raise NotImplementedError


class _Edges(_Runs):
    """Edges are places in a table of targets x sources."""

    kind = "edges"

    def prepare(self) -> None:
        nodes = Nodes(self.model)
        self.circuits = self.enter_context(Circuits(nodes, self.pairs, self.metric))
        self.names = nodes.source_names, nodes.target_names

    def order(self, parts: Any, absolute: bool, draw: Random) -> tuple[list[Any], int | None]:
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
        patched = self.circuits.exists.clone()
        for place in kept:
            patched[place] = False
        return self.circuits(patched).cpu().double()


class _Heads(_Runs):
    """Corrupted heads are filled with their outputs in the corrupt run."""

    kind = "heads"

    def prepare(self) -> None:
        self.enter_context(frozen(self.model, seed=0))
        self.enter_context(torch.no_grad())
        self.layout, self.fills = discover(self.model), []
        self.measured = PerExample(self.metric, "metric")
        for _, batch in self.pairs:
            with captured(self.model) as fill:
                forward(self.model, on_device(batch, self.model))
            self.fills.append(fill)

    def order(self, parts: Any, absolute: bool, draw: Random) -> tuple[list[Any], int | None]:
        if isinstance(parts, list):
            return _first([*self.layout.check(parts)], [*self.layout], draw)
        if isinstance(parts, Ranking):
            parts = parts.scores_for(self.layout)
        scores = {Head.parse(h) if isinstance(h, str) else h: float(v) for h, v in parts.items()}
        without = [str(head) for head in self.layout if head not in scores]
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
                outputs = forward(self.model, on_device(batch, self.model))
            values.append(self.measured(outputs, moved(batch, self.model)))
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
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The 95 % band of a curve, by drawing the pairs again."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(full), (RESAMPLES, len(full)), generator=generator)
    levels = torch.tensor([0.025, 0.975], dtype=torch.float64)
    bounds = [
        _share(v[drawn], full[drawn], nothing[drawn]).nanquantile(levels).tolist() for v in curve
    ]
    return tuple(b[0] for b in bounds), tuple(b[1] for b in bounds)
