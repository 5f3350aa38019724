"""Do the papers' claims hold? Every checkable statement of the papers, judged on any study.

    check("my-study")     verdicts on the records of a study (or of several together)
    published()           verdicts on the papers' own tables

A claim (`claim.py`) is a statement on some models and tasks, with a function from evidence on them
(`evidence.py`) to a finding. Evidence has one form: `from_study.py` reads records, `from_papers.py`
what papers print. `rule.py` has the rules for what numbers show. The claims themselves are in
`deadhead.papers`, a module for each paper, which `all_claims` loads by its name; `luck.py` has
those that no paper makes. Loads no torch.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from deadhead.errors import unknown_name
from deadhead.papers.catalogue import claim_modules
from deadhead.results import Study
from deadhead.results.study import no_garbage_collection

from . import luck
from .claim import Claim
from .evidence import Evidence
from .from_papers import printed
from .from_study import measured
from .verdict import FAILS, HOLDS, IN_PART, LUCKY, NO, OPEN, UNSHOWN, UNTESTED, VERDICTS, Verdict

__all__ = ["FAILS", "HOLDS", "IN_PART", "LUCKY", "NO", "OPEN", "UNSHOWN", "UNTESTED", "VERDICTS"]
__all__ += ["Claim", "Evidence", "Verdict", "all_claims", "check", "judge", "named", "published"]
__all__ += ["sources"]


def sources() -> tuple[str, ...]:
    """Where claims come from: the papers, and `luck` for our own."""
    return (*claim_modules(), luck.NAME)


def all_claims() -> dict[str, Claim]:
    """Every claim by its id, in the order of the papers, ours last."""
    modules = {name: import_module(module) for name, module in claim_modules().items()}
    groups = {name: module.CLAIMS for name, module in modules.items()} | {luck.NAME: luck.CLAIMS}
    return {
        claim.id: replace(claim, paper=name) for name, group in groups.items() for claim in group
    }


def check(*folders: str | Path | Study, paper: str | None = None) -> list[Verdict]:
    """Verdicts on one study, or on several together, since a paper's claims rest on several tables.

    The claims that a recipe names are always among them; of the others of its paper, and of our
    own, those that can be judged. A recipe of no paper that names no claims is judged by all.

    paper: judge the claims of this paper instead.
    """
    with no_garbage_collection():
        studies = [Study.open(folder) for folder in folders]
        evidence = measured(studies)
        if paper is not None:
            return judge(evidence, _of(paper))
        descriptions = [study.description for study in studies]
        names = {name for one in descriptions for name in one["recipe"].get("claims") or ()}
        ids = {claim.id for name in names for claim in named(name)}
        papers = {str(one["name"]).partition("/")[0] for one in descriptions}
        of_papers = bool(papers) and papers <= set(claim_modules())
        verdicts = judge(
            evidence,
            (
                claim
                for claim in all_claims().values()
                if not of_papers or claim.paper in (*papers, luck.NAME) or claim.id in ids
            ),
        )
    return [verdict for verdict in verdicts if not ids or verdict.id in ids or verdict.judged]


def published(paper: str | None = None) -> list[Verdict]:
    """Verdicts on the papers' own tables; `follows` says how those that do not hold fail."""
    verdicts = []
    for claim in _of(paper):
        ours = claim.paper == luck.NAME
        (verdict,) = judge(printed("" if ours else claim.paper), [claim])
        fails = verdict.verdict == FAILS or (ours and verdict.verdict == UNSHOWN)
        how = LUCKY if ours else IN_PART if claim.follows_in_part else NO
        verdicts.append(replace(verdict, follows=how if fails else ""))
    return verdicts


def judge(evidence: Evidence, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Verdicts on any evidence."""
    return [claim.on(evidence) for claim in (all_claims().values() if claims is None else claims)]


def named(name: str) -> list[Claim]:
    """The claims that a recipe means by a name.

    `W3` is W3, W3a and W3b, `C-low` is C-low alone, `C-mean` is all that begin with it.
    """
    claims = all_claims()
    more = "[a-z]" if name in claims else "-.*"
    pattern = re.compile(rf"{re.escape(name)}({more})?")
    matches = [claim for claim in claims.values() if pattern.fullmatch(claim.id)]
    if not matches:
        raise unknown_name("claim", name, claims)
    return matches


def _of(paper: str | None) -> list[Claim]:
    if paper is not None and paper not in sources():
        raise unknown_name("paper", paper, sources())
    return [claim for claim in all_claims().values() if paper in (None, claim.paper)]
