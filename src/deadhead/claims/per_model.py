"""Claims about one model, where a study has several: each is judged by itself, and the claim has to hold for all.

Without this, the scores of two models would pass for repeats of one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from .evidence import Evidence
from .verdict import HOLDS, OPEN, Finding, judged

Judge = Callable[[Evidence], Finding]


def per_model(judge: Judge, fits: Callable[[str], bool]) -> Judge:
    """The same judge, asked about one fitting model at a time; models that do not fit stay, to be compared with."""

    @wraps(judge)
    def on(evidence: Evidence) -> Finding:
        every = [*(fact.model for fact in evidence.facts), *(one.model for one in evidence.measured)]
        models = [model for model in dict.fromkeys(every) if fits(model)]
        if len(models) < 2:
            return judge(evidence)
        found = {model: judge(_without(evidence, {*models} - {model})) for model in models}
        known = {model: finding for model, finding in found.items() if finding.verdict != OPEN}
        if len(known) < 2:
            return next(iter((known or found).values()))
        margin = min(finding.margin or 0.0 for finding in known.values())
        numbers = " | ".join(f"{model}: {finding.numbers}" for model, finding in known.items())
        strength = " | ".join(dict.fromkeys(finding.strength for finding in known.values()))
        trials = [trial for finding in known.values() for trial in finding.trials]
        return judged(all(finding.verdict == HOLDS for finding in known.values()), margin, numbers, strength, trials)

    return on


def _without(evidence: Evidence, models: set[str]) -> Evidence:
    facts = tuple(fact for fact in evidence.facts if fact.model not in models)
    return replace(evidence, facts=facts, measured=tuple(one for one in evidence.measured if one.model not in models))
