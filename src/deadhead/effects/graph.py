"""Edges and their effects, as plain data: a table, a file and a drawing. Imports no torch."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deadhead.errors import DataError, UnknownName, unknown_name
from deadhead.files.writing import write_json

from .effects import Table

FORMAT = 1
NUMBERS = ("clean", "corrupt", "steps", "examples")  # of a file
ARROW = " -> "
RowColumn = tuple[int, int]  # of an edge: its row and its column
STRONGEST = 40  # edges in a drawing: more would hide each other


class Edge(NamedTuple):
    """From what adds to the residual stream to what reads it; printed as `source -> target`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}{ARROW}{self.target}"

    @classmethod
    def parse(cls, text: str) -> Edge:
        """Read an edge from its printed form, `encoder.0.3 -> encoder.2.1.q`."""
        source, arrow, target = text.partition(ARROW.strip())
        if not arrow or not source.strip() or not target.strip():
            hint = "write SOURCE -> TARGET, for instance encoder.0.3 -> encoder.2.1.q"
            raise DataError(f"expected an edge, got {text!r}.", hint)
        return cls(source.strip(), target.strip())


@dataclass(frozen=True, kw_only=True)
class EdgeEffects(Table):
    """How much the metric of the clean run changes if an edge has the value of the corrupt run.

    matrix: targets x sources; nan where there is no edge, or where it was not measured.
    clean, corrupt: the mean metric of both runs.
    steps: of the path of gradients; 0: the edges were patched exactly.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    matrix: np.ndarray = field(repr=False)
    clean: float
    corrupt: float
    steps: int
    examples: int

    def __len__(self) -> int:
        return int(np.isfinite(self.matrix).sum())

    def __getitem__(self, edge: Edge | str | tuple[str, str]) -> float:
        row, column = place_of(edge, self.sources, self.targets)
        if math.isnan(self.matrix[row, column]):
            named = Edge(self.sources[column], self.targets[row])
            raise UnknownName(f"there is no effect of {named}.")
        return float(self.matrix[row, column])

    def highest(self, count: int = STRONGEST, *, absolute: bool = True) -> dict[Edge, float]:
        """The edges with the strongest effects, the strongest first.

        absolute: by size; otherwise those first whose corruption lowers the metric most.
        """
        if count < 0:
            message = f"`count` expects a number of edges from 0, got {count}."
            raise DataError(message, "for instance effects.highest(20)")
        values = np.abs(self.matrix) if absolute else -self.matrix
        order = np.argsort(-values, axis=None, kind="stable")[: min(count, len(self))]
        places = (np.unravel_index(number, self.matrix.shape) for number in order)
        return {
            Edge(self.sources[column], self.targets[row]): float(self.matrix[row, column])
            for row, column in places
        }

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each edge, the strongest first."""
        edges = self.highest(len(self)).items()
        return [{**edge._asdict(), "effect": effect} for edge, effect in edges]

    def to_dict(self) -> dict[str, Any]:
        rows = [[None if math.isnan(v) else v for v in row] for row in self.matrix.tolist()]
        rest = {name: getattr(self, name) for name in (*NUMBERS, "sources", "targets")}
        return {"format": FORMAT, "kind": "edges", **rest, "effects": rows}

    def save(self, path: str | Path) -> Path:
        """Write the effects as JSON; the file is whole or absent."""
        return write_json(self.to_dict(), path, "edges.json")

    @classmethod
    def load(cls, path: str | Path) -> EdgeEffects:
        """Read effects from their JSON file."""
        again = "measure them again: edge_effects(model, clean, corrupt, metric).save(FILE)"
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(stored, dict) or stored.get("kind") != "edges":
                raise ValueError("it holds something else")
            if stored["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {stored['format']}")
            ends: Any = {name: tuple(stored[name]) for name in ("sources", "targets")}
            matrix = np.array(stored["effects"], dtype=float)  # null becomes nan
            matrix = matrix.reshape(len(ends["targets"]), len(ends["sources"]))
            return cls(**ends, matrix=matrix, **{name: stored[name] for name in NUMBERS})
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise DataError(f"{path} cannot be read as edge effects: {why}.", again) from None

    def plot(self, count: int = STRONGEST, title: str | None = None) -> Any:
        """Draw the strongest edges (an altair chart): layers from bottom to top.

        A line is as wide as its effect is large; `edges.plot().save("edges.svg")`.
        """
        if not 1 <= count <= STRONGEST:
            message = f"expected 1 to {STRONGEST} edges to draw, got {count}."
            raise DataError(message, "more would hide each other; edges.frame() has all edges")
        from .drawing import drawn

        return drawn(self.highest(count), title or self.title)

    @property
    def title(self) -> str:
        """What the effects are, in words."""
        how = f"estimated in {self.steps} steps" if self.steps > 1 else "estimated"
        how = how if self.steps else "patched exactly"
        return (
            f"effect of corrupting an edge, {how} "
            f"(clean {self.clean:.4g}, corrupt {self.corrupt:.4g})"
        )


def is_edge(part: object) -> bool:
    """Whether it names an edge and not a head."""
    return isinstance(part, Edge) or (isinstance(part, str) and ARROW.strip() in part)


def place_of(edge: Any, sources: tuple[str, ...], targets: tuple[str, ...]) -> RowColumn:
    """The row and the column of an edge; an error for a node that is not there."""
    if not isinstance(edge, str) and not (isinstance(edge, tuple) and len(edge) == 2):
        raise DataError(f"expected an edge, got {edge!r}.", "write SOURCE -> TARGET")
    named = Edge.parse(edge) if isinstance(edge, str) else Edge(*edge)
    if named.source not in sources:
        raise unknown_name("source of an edge", named.source, sources)
    if named.target not in targets:
        raise unknown_name("target of an edge", named.target, targets)
    return targets.index(named.target), sources.index(named.source)
