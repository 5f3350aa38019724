"""Claims of Budhraja et al. 2021 on one epoch: scores, entropy, embeddings (M16-M18, M21)."""

from functools import partial
from itertools import combinations
from statistics import fmean

from deadhead.layout import Head
from deadhead.papers.claims.claim import MBERT, ON_XNLI, Claim, Scope, measured_on
from deadhead.papers.claims.evidence import Evidence, all_of_xnli, group_by
from deadhead.papers.claims.from_papers import stated
from deadhead.papers.claims.rule import above, every, exactly, over_repeats
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results import Measurement, Score
from deadhead.results.records import LATER
from deadhead.results.statistics import THIRDS, entropy_change, recovery

CLOSE = {"en", "es", "de", "vi"}  # languages said to overlap after one epoch
TOGETHER = {"hi", "ur"}
APART = {"sw", "tr", "ar"}
ROUNDING = 0.5  # percent, since the paper states a whole number
# Silhouette: up to here clusters have no substantial structure (Kaufman and Rousseeuw 1990).
APART_BEFORE = 0.25
NO_FIRST = (
    "XNLI scores after the first epoch (finetune: {first: true}) and after further ones, "
    "of pruned models"
)


def recovered(evidence: Evidence) -> tuple[dict[tuple[str, str], float], list[Score]]:
    """By trial and language: the first epoch's score in percent of the last one's, when pruned."""
    scores = [s for s in evidence.scores if s.remove != "none" and s.trial]
    last = {(s.trial, s.target): s.value for s in scores if s.epoch is None and s.value}
    shares = {
        (s.trial, s.target): 100 * recovery([s.value], [last[s.trial, s.target]])
        for s in scores
        if s.epoch == 1 and (s.trial, s.target) in last
    }
    trials = {trial for trial, _ in shares}
    return shares, [s for s in scores if s.trial in trials]


def _grouped(shares: dict[tuple[str, str], float], part: int) -> dict[str, list[float]]:
    """The shares by trial (part 0) or by language (part 1)."""
    groups: dict[str, list[float]] = {}
    for key, share in shares.items():
        groups.setdefault(key[part], []).append(share)
    return groups


def one_epoch_gives_most(evidence: Evidence, share: float) -> Finding:
    shares, used = recovered(evidence)
    if len(shares) < 2:
        return missing(NO_FIRST)
    values = shares.values()
    numbers = (
        f"one epoch gives {fmean(values):.1f} % of the last epoch's score "
        f"({min(values):.1f} to {max(values):.1f} %)"
    )
    # One training scored in many languages is one experiment.
    by_trial = [fmean(group) for group in _grouped(shares, 0).values()]
    strength = f"trials: {len(by_trial)}, languages: {len(_grouped(shares, 1))}"
    return judged(above(by_trial, share - ROUNDING), numbers, used, strength)


def one_epoch_gives_most_in_every_language(evidence: Evidence, share: float) -> Finding:
    shares, used = recovered(evidence)
    groups = _grouped(shares, 1)
    if len(groups) < 2:
        return missing(NO_FIRST)
    leads = {name: fmean(values) - (share - ROUNDING) for name, values in groups.items()}
    least = min(leads, key=lambda name: leads[name])
    enough = sum(lead >= 0 for lead in leads.values())
    mean = f"{fmean(groups[least]):.1f} %"
    numbers = f"in {enough} of {len(groups)} languages, least in {least} ({mean})"
    widths = [over_repeats([values]) for values in groups.values()]
    outcome = every(list(leads.values()), all_of_xnli(groups), ties=True, noise=widths)
    return judged(outcome, numbers, used, f"trials: {len(_grouped(shares, 0))}")


def stages(evidence: Evidence, name: str) -> list[tuple[Measurement, Measurement]]:
    """A measure before training and after one epoch, of pruned models."""
    measures = (m for m in evidence.measures if m.name == name and m.remove != "none")
    pairs = []
    for group in group_by(measures, "trial").values():
        run = {measure.stage: measure for measure in group}
        after = next((run[stage] for stage in LATER if stage in run), None)
        if "before" in run and after is not None:
            pairs.append((run["before"], after))
    return pairs


def entropy_moves_most_at_the_top(
    evidence: Evidence, bottom: float, middle: float, top: float
) -> Finding:
    expected = {"bottom": bottom, "middle": middle, "top": top}
    runs = stages(evidence, "entropy")
    changes = [
        entropy_change(before.values, after.values, layers=_layers(before))
        for before, after in runs
    ]
    whole = [change for change in changes if set(change) == set(expected)]
    if not whole:
        return missing(
            "entropy of the heads left in every third of the layers, before training "
            "and after one epoch (measure: entropy)"
        )
    mean = {third: fmean(change[third] for change in whole) for third in expected}
    leads = [change["top"] - max(change["middle"], change["bottom"]) for change in whole]
    ours, theirs = (listed(values, "{} {:.3f}") for values in (mean, expected))
    numbers = f"mean change in nats: {ours} (stated: {theirs})"
    strength = f"the top leads in {sum(lead > 0 for lead in leads)} of {len(leads)} trials"
    return judged(above(leads, 0.0), numbers, [before for before, _ in runs], strength)


def _layers(run: Measurement) -> int:
    """The layers of the model: every head is either left or removed."""
    return 1 + max(Head.parse(head).layer for head in (*run.values, *run.removed))


def languages_come_together(evidence: Evidence) -> Finding:
    runs = stages(evidence, "embeddings")
    if not runs:
        return missing(
            "embeddings of sentences before training and after one epoch (measure: embeddings)"
        )
    margins, texts = [], []
    for before, after in runs:
        names, rows = (after.values["centroids"][part] for part in ("languages", "distances"))
        pairs = combinations(enumerate(names), 2)
        distances = {frozenset((a, b)): rows[i][j] for (i, a), (j, b) in pairs}
        groups = {
            "close": [d for pair, d in distances.items() if pair <= CLOSE],
            "together": [d for pair, d in distances.items() if pair == TOGETHER],
            "apart": [d for pair, d in distances.items() if pair & APART],
        }
        if not all(groups.values()):
            return missing(
                "embeddings of two of en, es, de, vi; of hi and ur; and of one of sw, tr, ar"
            )
        overall = fmean(distances.values())
        ratio = {name: fmean(values) / overall for name, values in groups.items()}
        first, last = before.values["silhouette"], after.values["silhouette"]
        closer = min(1 - ratio["close"], 1 - ratio["together"], ratio["apart"] - 1)
        margins.append(min(first - APART_BEFORE, first - last, closer))
        each = listed(ratio, "{} {:.2f}")
        texts.append(f"silhouette {first:.2f} to {last:.2f}; distances over their mean: {each}")
    whole = all(all_of_xnli(after.values["centroids"]["languages"]) for _, after in runs)
    outcome = exactly(min(margins) > 0, min(margins), whole)
    used = [before for before, _ in runs]
    return judged(outcome, " | ".join(texts), used, f"trials: {len(runs)}")


says = partial(stated, "mbert-prunability")
MBERT_ON_XNLI = Scope(models=MBERT, tasks=ON_XNLI)
ENTROPY = Scope(models=MBERT, tasks=measured_on("mnli", "entropy"))
EMBEDDINGS = Scope(models=MBERT, tasks=measured_on("xnli", "embeddings"))
AFTER_ONE = {"share": says("share_of_final_accuracy_after_1_epoch_percent")}

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    Claim("M16", "%", one_epoch_gives_most, MBERT_ON_XNLI,
          "One epoch gives at least {share:g} % of the final XNLI score, over all pruned models "
          "and languages.",
          numbers=AFTER_ONE),
    Claim("M17", "nats", entropy_moves_most_at_the_top, ENTROPY,
          "In one epoch the entropy of the heads left moves most in the top third of the layers.",
          numbers={third: says("entropy_change_alive_heads", of=third) for third in THIRDS}),
    Claim("M18", "silhouette, or share of the mean distance", languages_come_together, EMBEDDINGS,
          "Before training languages are apart; after it en, es, de, vi come together, hi and ur "
          "are close, sw, tr, ar stay apart."),
    Claim("M21", "%", one_epoch_gives_most_in_every_language, MBERT_ON_XNLI,
          "In every language of XNLI one epoch gives at least {share:g} % of the final score, "
          "over all pruned models.",
          numbers=AFTER_ONE),
)
# fmt: on
