"""The candidates that a refit tries in each layer. Needs no torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from deadhead.errors import unknown_name


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One kind of change of an output projection.

    unknowns: what is solved: the "bias" alone, a factor for each of the "units", or a weight for
        each of the "inputs".
    has_mean: also try the bias alone.
    relative: each token weighs 1 / |target|^2, as in the error on the held-out tokens.
    """

    unknowns: Literal["bias", "units", "inputs"]
    has_mean: bool = False
    relative: bool = False


CANDIDATES: Mapping[str, Candidate] = {  # in order of how much they change
    "mean": Candidate(unknowns="bias", has_mean=True),
    "scales": Candidate(unknowns="units"),
    "refit": Candidate(unknowns="inputs"),
    "weighted": Candidate(unknowns="inputs", has_mean=True, relative=True),
}


def check_candidates(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of candidates in the order of the table; refuse an unknown one."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    for name in chosen:
        if name not in CANDIDATES:
            raise unknown_name("candidate", name, CANDIDATES)
    return tuple(name for name in CANDIDATES if name in chosen)
