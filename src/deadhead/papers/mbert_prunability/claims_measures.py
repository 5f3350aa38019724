"""Claims of Budhraja et al. 2021 on what one epoch does: to scores (M16), to entropy (M17), to embeddings (M18)."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean
from typing import Any

from deadhead.claims.cases import all_of_xnli
from deadhead.claims.evidence import Evidence
from deadhead.claims.from_papers import stated
from deadhead.claims.rule import above, at_face, every, over_repeats
from deadhead.claims.scope import about
from deadhead.claims.subjects import MBERT, ON_XNLI, measured_on
from deadhead.claims.verdict import Claim, Finding, judged, missing
from deadhead.layout import Head
from deadhead.results import Measure, Score
from deadhead.results.statistics import entropy_change, recovery

PAPER = "mbert-prunability"
CLOSE = ("en", "es", "de", "vi")  # languages said to overlap after one epoch
APART = ("sw", "tr", "ar")
TOGETHER = ("hi", "ur")
RECOVERED = (
    stated(PAPER, "share_of_final_accuracy_after_1_epoch_percent") - 0.5
)  # percent; what rounds to it
APART_BEFORE = 0.25  # silhouette: up to it clusters have no structure worth the name (Kaufman and Rousseeuw 1990)
NO_FIRST = "XNLI scores after the first epoch (finetune: {first: true}) and after further ones, of pruned models"
EARLY = ("first", "after")  # the stage after one epoch, or where it was not kept, the last


def recovered(evidence: Evidence) -> tuple[dict[tuple[str, str], float], list[Score]]:
    """By trial and language: how many percent of the last epoch's score are there after the first, of pruned models."""
    facts = [f for f in evidence.scores if f.remove != "none" and f.trial]
    last = {(f.trial, f.target): f.value for f in facts if f.epoch is None and f.value}
    early = {
        (f.trial, f.target): f.value for f in facts if f.epoch == 1 and (f.trial, f.target) in last
    }
    shares = {place: 100 * recovery([value], [last[place]]) for place, value in early.items()}
    trials = {trial for trial, _ in shares}
    return shares, [f for f in facts if f.trial in trials]


def m16(evidence: Evidence) -> Finding:
    shares, used = recovered(evidence)
    if len(shares) < 2:
        return missing(NO_FIRST)
    mean, by_trial = fmean(shares.values()), list(_means(shares, 0).values())
    numbers = f"one epoch gives {mean:.1f} % of the last epoch's score ({min(shares.values()):.1f} to {max(shares.values()):.1f} %)"
    strength = f"trials: {len(by_trial)}, languages: {len(_means(shares, 1))}"
    return judged(
        above(by_trial, RECOVERED), numbers, strength, used
    )  # one training scored in many languages is one experiment


def m21(evidence: Evidence) -> Finding:
    shares, used = recovered(evidence)
    by_language = _means(shares, 1)
    if len(by_language) < 2:
        return missing(NO_FIRST)
    least = min(by_language, key=lambda name: by_language[name])
    enough = sum(share >= RECOVERED for share in by_language.values())
    numbers = f"in {enough} of {len(by_language)} languages, least in {least} ({by_language[least]:.1f} %)"
    draws = [
        over_repeats([[share for (_, at), share in shares.items() if at == name]])
        for name in by_language
    ]
    shown = every(
        [share - RECOVERED for share in by_language.values()],
        all_of_xnli(by_language),
        ties=True,
        noise=draws,
    )
    return judged(shown, numbers, f"trials: {len(_means(shares, 0))}", used)


def _means(shares: dict[tuple[str, str], float], place: int) -> dict[str, float]:
    """The means by trial (place 0) or by language (place 1)."""
    return {
        name: fmean(v for key, v in shares.items() if key[place] == name)
        for name in dict.fromkeys(key[place] for key in shares)
    }


def stages(evidence: Evidence, name: str) -> list[tuple[Measure, Measure]]:
    """What was measured before training and after one epoch, of pruned models."""
    found: dict[str, dict[str, Measure]] = {}
    for one in evidence.measures:
        if one.name == name and one.remove != "none":
            found.setdefault(one.trial, {})[one.stage] = one
    pairs = [
        (by["before"], next((by[stage] for stage in EARLY if stage in by), None))
        for by in found.values()
        if "before" in by
    ]
    return [(before, after) for before, after in pairs if after is not None]


def m17(evidence: Evidence) -> Finding:
    runs = stages(evidence, "entropy")
    moved = [
        entropy_change(before.values, after.values, layers=_layers(before))
        for before, after in runs
    ]
    whole = [one for one in moved if set(one) == {"bottom", "middle", "top"}]
    if not whole:
        return missing(
            "entropy of the heads left in every third of the layers, before training and after one epoch (measure: entropy)"
        )
    mean = {name: fmean(one[name] for one in whole) for name in ("bottom", "middle", "top")}
    leads = [one["top"] - max(one["middle"], one["bottom"]) for one in whole]
    wanted = ", ".join(
        f"{name} {stated(PAPER, 'entropy_change_alive_heads', of=name):.3f}" for name in mean
    )
    numbers = (
        "mean change in nats: "
        + ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
        + f" (stated: {wanted})"
    )
    strength = f"the top leads in {sum(lead > 0 for lead in leads)} of {len(leads)} trials"
    return judged(above(leads, 0.0), numbers, strength, [before for before, _ in runs])


def _layers(run: Measure) -> int:
    """The layers of the model: every head is either left or removed."""
    return 1 + max(Head.parse(head).layer for head in (*run.values, *run.removed))


def distance(centroids: dict[str, Any]) -> dict[frozenset[str], float]:
    names, rows = centroids["languages"], centroids["distances"]
    return {frozenset((a, b)): rows[i][j] for (i, a), (j, b) in combinations(enumerate(names), 2)}


def m18(evidence: Evidence) -> Finding:
    runs = stages(evidence, "embeddings")
    if not runs:
        return missing(
            "embeddings of sentences before training and after one epoch (measure: embeddings)"
        )
    margins, told = [], []
    for before, after in runs:
        apart = distance(after.values["centroids"])
        groups = {
            "close": [d for pair, d in apart.items() if pair <= set(CLOSE)],
            "together": [d for pair, d in apart.items() if pair == set(TOGETHER)],
            "apart": [d for pair, d in apart.items() if pair & set(APART)],
        }
        if not all(groups.values()):
            return missing(
                "embeddings of two of en, es, de, vi; of hi and ur; and of one of sw, tr, ar"
            )
        middle, mean = (
            fmean(apart.values()),
            {name: fmean(values) for name, values in groups.items()},
        )
        fall = before.values["silhouette"] - after.values["silhouette"]
        before_it = before.values["silhouette"] - APART_BEFORE
        margins.append(
            min(
                before_it,
                fall,
                1 - mean["close"] / middle,
                1 - mean["together"] / middle,
                mean["apart"] / middle - 1,
            )
        )
        told.append(
            f"silhouette {before.values['silhouette']:.2f} to {after.values['silhouette']:.2f}; distances over their mean: "
            + ", ".join(f"{name} {value / middle:.2f}" for name, value in mean.items())
        )
    whole = all(all_of_xnli(after.values["centroids"]["languages"]) for _, after in runs)
    shown = at_face(min(margins) > 0, min(margins), whole)
    return judged(shown, " | ".join(told), f"trials: {len(runs)}", [before for before, _ in runs])


CLAIMS = tuple(
    Claim(name, PAPER, statement, judge, unit)
    for name, unit, statement, judge in (
        ("M16", "%", "One epoch gives at least 93 % of the final XNLI score, over all pruned models and languages.", about(m16, MBERT, ON_XNLI)),
        ("M17", "nats", "In one epoch the entropy of the heads left moves most in the top third of the layers.", about(m17, MBERT, measured_on("mnli", "entropy"))),
        ("M18", "silhouette, or share of the mean distance", "Before training languages lie apart; after it en, es, de, vi come together, hi and ur are close, sw, tr, ar stay apart.", about(m18, MBERT, measured_on("xnli", "embeddings"))),
        ("M21", "%", "In every language of XNLI one epoch gives at least 93 % of the final score, over all pruned models.", about(m21, MBERT, ON_XNLI)),
    )
)  # fmt: skip
