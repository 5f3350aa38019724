"""The cases that the papers' statements are about: tasks, languages, pairs of languages.

Evidence that has all of them, and no others, is whole (`rule.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from deadhead.results import Merged, Search
from deadhead.tasks.languages import paper_languages

from .evidence import GLUE, Evidence
from .from_papers import printed
from .scope import MULTI, of_models

PAPER = "contributions"  # which has pairs and targets
TENTHS = set(range(10, 100, 10))  # percent of the heads


def all_of_glue(tasks: Iterable[str]) -> bool:
    return set(tasks) == set(GLUE)


def all_of_xnli(targets: Iterable[str]) -> bool:
    return set(targets) == set(paper_languages("mbert-prunability"))


def all_of_wmt(targets: Iterable[str]) -> bool:
    return set(targets) == {"en-ru", "en-de"}


def all_pairs(
    searches: Sequence[Search],
    select: Callable[[Evidence], Sequence[Search]],
    both_models: bool = False,
) -> bool:
    """Whether these are the pairs that `select` takes from the paper's tables."""
    # The tables have the same pairs for each of the two models.
    tables = printed(PAPER) if both_models else of_models(printed(PAPER), (MULTI,))
    ours, theirs = (
        Counter((s.task, s.source, s.target, s.setting) for s in group)
        for group in (searches, select(tables))
    )
    return ours == theirs


def all_targets(merged: Sequence[Merged]) -> bool:
    """Whether these are the targets of their tasks in the paper's table of several sources."""
    tasks = {one.task for one in merged}
    theirs = [one for one in printed(PAPER).merged if one.task in tasks]
    ours, printed_ones = (Counter((m.task, m.target) for m in group) for group in (merged, theirs))
    return ours == printed_ones
