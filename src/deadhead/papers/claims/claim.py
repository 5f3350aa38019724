"""A claim: one checkable statement, with everything that is known about it in one place."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from .evidence import Evidence
from .scope import Scope, judge_in_scope
from .verdict import HOLDS, LUCKY, UNSHOWN, Finding, Verdict


@dataclass(frozen=True)
class Claim:
    """A statement of a paper in our words, and the function that judges it.

    The first five fields are positional, because papers write their claims as tables.

    The function gets the evidence within the scope, in a comparison also that on the other models,
    and the numbers by name. The sentence may use the same names: "costs less than {limit:g} BLEU".
    """

    id: str
    unit: str  # in which the margin is given: points, BLEU, cases
    judge: Callable[..., Finding]
    scope: Scope
    sentence: str
    _: KW_ONLY
    numbers: Mapping[str, float] = field(default_factory=dict)  # those the paper states
    follows_in_part: bool = False  # its tables show a part of it, where it does not hold as a whole
    paper: str = ""  # set by `all_claims`: the folder that has it, or "luck"

    @property
    def statement(self) -> str:
        return self.sentence.format(**self.numbers)

    def on(self, evidence: Evidence) -> Verdict:
        """The verdict on some evidence."""
        finding = judge_in_scope(self.scope, partial(self.judge, **self.numbers), evidence)
        lucky = finding.lucky and finding.verdict in (HOLDS, UNSHOWN) and not evidence.printed
        return Verdict(
            id=self.id,
            paper=self.paper,
            statement=self.statement,
            verdict=finding.verdict,
            margin=finding.margin,
            numbers=finding.numbers,
            strength=finding.strength,
            trials=finding.trials,
            unit=self.unit,
            follows=LUCKY if lucky else "",
        )
