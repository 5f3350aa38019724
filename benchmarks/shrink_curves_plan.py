"""Which models `shrink_curves.py` makes: units, choices, shares and treatments. No torch."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shrink_curves_rows import EPOCH, HIGHEST, LOWEST, REPAIRED, RETRAINED, WHOLE, Row

from deadhead.errors import DeadheadError, unknown_name

METHODS = {  # how to choose; the rankers score heads only
    "heads": ("random", LOWEST, "taylor", "fisher", "kwon", "reconstruction"),
    "neurons": ("random", "fisher", "kwon", "reconstruction"),
    "both": ("random", "fisher", "kwon", "reconstruction"),
}
SHARES, SOME = (10, 25, 50, 75, 90), (25, 50, 75)


@dataclass(frozen=True)
class Part:
    """Every choice at every share with every treatment."""

    units: str
    choices: tuple[str, ...]
    shares: tuple[int, ...]
    treatments: tuple[str, ...]


PARTS = {  # in the order in which they are worth their time
    "heads": (
        Part("heads", METHODS["heads"], SHARES, ("cut", "refit")),
        Part("heads", (HIGHEST,), SHARES, ("cut", "refit")),
    ),
    "retrained": (
        # not at 90 %, where the lowest and the highest heads are nearly the same
        Part("heads", ("random", LOWEST, HIGHEST), SOME, (RETRAINED,)),
        Part("heads", ("reconstruction",), (75, 90), (RETRAINED,)),
    ),
    "neurons": (Part("neurons", METHODS["neurons"], SHARES, (*REPAIRED,)),),
    "both": (Part("both", METHODS["both"], SHARES, (*REPAIRED,)),),
    "mean": (Part("heads", METHODS["heads"], SHARES, ("mean",)),),
    "epoch": tuple(Part(u, METHODS[u], SHARES, (f"refit{EPOCH}",)) for u in METHODS),
}


def chosen_parts(
    arguments: argparse.Namespace, known: Mapping[str, Sequence[Part]] = PARTS
) -> list[Part]:
    """The parts of these names, at these shares and choices only if some are named."""
    names = arguments.parts.split(",")
    for name in names:
        if name not in known:
            raise unknown_name("part", name, known)
    return narrowed(arguments, [part for name in names for part in known[name]])


def narrowed(arguments: argparse.Namespace, parts: Sequence[Part]) -> list[Part]:
    """The parts, at the shares and choices of the arguments only if some are named."""
    if arguments.shares is not None:
        some = [int(share) for share in arguments.shares.split(",")]
        if unknown := set(some) - {*SHARES}:
            raise unknown_name("share", str(min(unknown)), [*map(str, SHARES)])
        parts = [replace(p, shares=tuple(s for s in p.shares if s in some)) for p in parts]
    if arguments.choices is not None:
        some_choices = arguments.choices.split(",")
        if wrong := {*some_choices} - {*METHODS["heads"]}:
            raise unknown_name("choice", min(wrong), METHODS["heads"])
        parts = [
            replace(p, choices=tuple(c for c in p.choices if c in some_choices)) for p in parts
        ]
    return [*parts]


def parts_like(rows: Iterable[Row], task: str, seed: int) -> list[Part]:
    """The parts that an earlier run of this task and seed made, read from its rows."""
    treatments: dict[tuple[str, str, int], list[str]] = {}
    for row in rows:
        if (row["task"], row["seed"]) == (task, seed) and not row["treatment"].startswith(WHOLE):
            place = row["units"], row["choice"], row["share"]
            treatments.setdefault(place, []).append(row["treatment"])
    if not treatments:
        hint = "name a task and a seed that it has, or leave out --like"
        raise DeadheadError(f"The file of --like has no rows of {task}, seed {seed}.", hint)
    return [
        Part(units, (choice,), (share,), tuple(names))
        for (units, choice, share), names in treatments.items()
    ]
