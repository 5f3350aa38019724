"""The options of figures of kind `curve`, apart from its code, which is in several files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deadhead.report.spec import Figure, Scored, axes, axis, word
from deadhead.studies.fields import Problem

GROUPS = ("word_order", "resource", "family")  # classes of languages
REMOVALS = ("remove", "amount", "percent")  # values of x that stand for what is removed


@dataclass(frozen=True, kw_only=True)
class CurveOptions(Scored, Figure):
    """What a curve shows: the axis of x, lines, panels, and what is averaged."""

    x: str = axis(required=True)
    lines: str = axis()
    panels: tuple[str, ...] = axes()
    value: str = word("score", "drop", "gain")
    mean_over: tuple[str, ...] = axes()
    group: str = word(*GROUPS, default="")  # classes of languages, as lines or panels

    def conflicts(self) -> Iterator[Problem]:
        if self.value == "gain" and self.x != "k":
            yield ("value",), "a gain is shown over the heads that a search removes: x: k."

    @property
    def by_removal(self) -> bool:
        return self.x in REMOVALS

    @property
    def lines_are_removals(self) -> bool:
        return self.lines in ("", "remove", "strategy")
