"""Evidence of one model or task under the name of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deadhead.papers.claims import all_claims
from deadhead.papers.claims.evidence import Evidence

CLAIMS = all_claims()


PARTS = ("scores", "searches", "merged", "measures", "rankings", "rhos")


MINE = "somebody/my-encoder"


def recast(
    evidence: Evidence, models: Mapping[str, str] = {}, tasks: Mapping[str, str] = {}
) -> Evidence:
    """The same numbers, found on other models or tasks."""

    def other(entry: Any) -> Any:
        return replace(
            entry,
            model=models.get(entry.model, entry.model),
            task=tasks.get(entry.task, entry.task),
        )

    return replace(evidence, **{part: tuple(map(other, getattr(evidence, part))) for part in PARTS})
