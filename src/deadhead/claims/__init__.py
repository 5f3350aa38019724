"""Do the papers' claims hold? Every checkable statement of the three papers, judged on any study.

    check("my-study")     verdicts on the records of a study (or of several, pooled)
    published()           verdicts on the papers' own tables

A claim (`verdict.py`) is a statement with a pure function from evidence (`evidence.py`) to a finding, and
evidence has one shape wherever it comes from: `from_study.py` reads records, `from_papers.py` the numbers
the papers print. `shown.py` says what numbers show of a statement, by one rule for both. `about.py` hands a claim the
models and tasks it is about (`kinds.py`), or what stands in for them. The claims lie by paper: `weak_link*.py`, `mbert*.py`, `contributions*.py`; `luck.py` has those that no
paper makes. Loads no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from deadhead.errors import unknown_name
from deadhead.papers.contributions import claims_search as contributions
from deadhead.papers.mbert_prunability import claims_glue as mbert
from deadhead.papers.weak_link import claims_translation as weak_link
from deadhead.results import Study
from deadhead.results.study import no_garbage_collection

from . import luck
from .evidence import Evidence
from .from_papers import FOLLOW_IN_PART, PAPERS, printed
from .from_study import measured
from .verdict import (
    FAILS,
    HOLDS,
    IN_PART,
    LUCKY,
    NO,
    OPEN,
    UNSHOWN,
    UNTESTED,
    VERDICTS,
    Claim,
    Verdict,
)

CLAIMS: dict[str, Claim] = {
    c.id: c for c in (*weak_link.CLAIMS, *mbert.CLAIMS, *contributions.CLAIMS, *luck.CLAIMS)
}
SOURCES = (*PAPERS, luck.PAPER)

__all__ = [
    "CLAIMS",
    "FAILS",
    "HOLDS",
    "IN_PART",
    "LUCKY",
    "NO",
    "OPEN",
    "SOURCES",
    "UNSHOWN",
    "UNTESTED",
    "VERDICTS",
    "Claim",
    "Evidence",
    "Verdict",
    "check",
    "judge",
    "named",
    "published",
]


def check(*folders: str | Path | Study, paper: str | None = None) -> list[Verdict]:
    """Verdicts on one study, or on several whose records are pooled, since a paper's claims rest on several tables.

    The claims a recipe names are always among them, and of the others of its paper, and of those on luck, all that can
    be judged. A recipe that names none and is of no paper is judged by all claims. `paper` asks for those of one paper.
    """
    with no_garbage_collection():
        studies = [Study.open(folder) for folder in folders]
        evidence = measured(studies)
        if paper is not None:
            return judge(evidence, _of(paper))
        asked, papers = _asked(studies)
        found = judge(
            evidence,
            [
                c
                for c in CLAIMS.values()
                if not papers or c.paper in (*papers, luck.PAPER) or c.id in asked
            ],
        )
    return [verdict for verdict in found if not asked or verdict.id in asked or verdict.judged]


def published(paper: str | None = None) -> list[Verdict]:
    """Verdicts on the papers' own tables; of what does not hold, `follows` tells whether it follows in part, or not at all."""
    return [replace(one, follows=_follows(one)) for one in judge(printed(), _of(paper))]


def _follows(one: Verdict) -> str:
    if one.paper == luck.PAPER:
        return LUCKY if one.verdict in (UNSHOWN, FAILS) else ""
    return "" if one.verdict != FAILS else IN_PART if one.id in FOLLOW_IN_PART else NO


def judge(evidence: Evidence, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Verdicts on any evidence."""
    return [claim.on(evidence) for claim in (CLAIMS.values() if claims is None else claims)]


def named(name: str) -> list[Claim]:
    """The claims a recipe means by a name: `W3` is W3, W3a and W3b, `C-low` is C-low alone, `C-mean` all that begin with it."""
    more = "[a-z]" if name in CLAIMS else "-.*"
    found = [
        claim for claim in CLAIMS.values() if re.fullmatch(rf"{re.escape(name)}({more})?", claim.id)
    ]
    if not found:
        raise unknown_name("claim", name, CLAIMS)
    return found


def _of(paper: str | None) -> list[Claim]:
    if paper is not None and paper not in SOURCES:
        raise unknown_name("paper", paper, SOURCES)
    return [claim for claim in CLAIMS.values() if paper in (None, claim.paper)]


def _asked(studies: Iterable[Study]) -> tuple[set[str], set[str]]:
    """The claims that the recipes of some studies name, and the papers they are of; no papers where one is of none."""
    stored = [study.description for study in studies]
    papers = {str(told["name"]).partition("/")[0] for told in stored}
    names = [name for told in stored for name in told["recipe"].get("claims") or ()]
    return {claim.id for name in names for claim in named(name)}, papers if papers <= set(
        PAPERS
    ) else set()
