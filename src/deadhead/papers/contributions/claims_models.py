"""Claims of Ma et al. 2021 that compare mBERT with XLM-R: scores of the full models, and gains."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import fmean

from deadhead.papers.claims import rule
from deadhead.papers.claims.cases import all_pairs
from deadhead.papers.claims.claim import Claim
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.scope import MBERT, XLMR, Scope
from deadhead.papers.claims.searches import CROSS, MULTI, TASKS, noise, of_setting
from deadhead.papers.claims.strength import signs
from deadhead.papers.claims.verdict import Finding, judged, missing
from deadhead.results import Search
from deadhead.results.statistics import sign_test

FAR_EAST = {"zh", "ja"}  # excepted by the paper in cross-lingual experiments only
FEWEST = 4  # pairs


def _both(
    evidence: Evidence, other: Evidence, task: str, setting: str
) -> dict[tuple[str, str], tuple[Search, Search]]:
    """The searches of mBERT and of XLM-R, by pair of languages."""
    select = partial(of_setting, task=task, setting=setting)
    mbert, xlmr = ({(s.source, s.target): s for s in select(one)} for one in (evidence, other))
    return {pair: (mbert[pair], xlmr[pair]) for pair in mbert if pair in xlmr}


def _whole(both: dict[tuple[str, str], tuple[Search, Search]], task: str, setting: str) -> bool:
    select = partial(of_setting, task=task, setting=setting)
    return all_pairs([mbert for mbert, _ in both.values()], select)


def xlmr_is_ahead(evidence: Evidence, other: Evidence, task: str, setting: str) -> Finding:
    both = _both(evidence, other, task, setting)
    leads = {pair: xlmr.unpruned - mbert.unpruned for pair, (mbert, xlmr) in both.items()}
    excepted = FAR_EAST if setting == CROSS else set()
    counted = [lead for pair, lead in leads.items() if not excepted & set(pair)]
    if len(counted) < FEWEST:
        what = f"{setting} scores of unpruned mBERT and XLM-R on {task}, of four pairs"
        return missing(f"{what} without zh, ja" if excepted else what)
    ahead, n = sum(v > 0 for v in counted), len(counted)
    numbers = f"XLM-R ahead in {ahead} of {n} pairs"
    if excepted:
        eastern = [lead for pair, lead in leads.items() if excepted & set(pair)]
        with_them = f"in {sum(v > 0 for v in eastern)} of {len(eastern)} with"
        numbers += f" without zh and ja, {with_them}"
    strength = f"sign test p = {sign_test(ahead, sum(v < 0 for v in counted)):.2g}"
    used = [s for side in zip(*both.values(), strict=True) for s in side]
    outcome = rule.most(ahead, n, _whole(both, task, setting))
    return judged(outcome, numbers, used, strength)


def gains_are_comparable(evidence: Evidence, other: Evidence, task: str) -> Finding:
    """Whether the mean gains of the two models are within a point, in both settings."""
    parts, texts, used, all_leads = [], [], [], []
    for setting in (CROSS, MULTI):
        both = _both(evidence, other, task, setting)
        if len(both) < FEWEST:
            return missing(f"{setting} searches of mBERT and XLM-R on {task}, of four pairs")
        sides = [list(side) for side in zip(*both.values(), strict=True)]
        leads = [xlmr.gain() - mbert.gain() for mbert, xlmr in both.values()]
        whole = _whole(both, task, setting)
        parts.append(rule.as_stated(leads, 0.0, rule.POINT, whole, rule.joint(*map(noise, sides))))
        means = [fmean(s.gain() for s in side) for side in sides]
        texts.append(f"{setting} mBERT {means[0]:+.2f}, XLM-R {means[1]:+.2f}")
        used += [s for side in sides for s in side]
        all_leads += leads
    numbers = f"mean gain: {'; '.join(texts)}"
    return judged(rule.worst(parts), numbers, used, signs(all_leads))


AGAINST_XLMR = Scope(models=MBERT, others=XLMR, searches=True)


# Tables: id, unit, function and scope, then the statement.
# fmt: off
def _ahead() -> Iterator[Claim]:
    for (name, where), setting in product({"POS": "", "NER": " (stated for POS)"}.items(),
                                          (CROSS, MULTI)):
        pairs = "pairs with zh or ja aside" if setting == CROSS else "zh and ja included"
        yield Claim(f"C-xlmr-{name}-{setting}", "cases",
                    partial(xlmr_is_ahead, task=TASKS[name], setting=setting), AGAINST_XLMR,
                    f"Unpruned XLM-R is mostly ahead of mBERT on {setting} {name}, {pairs}{where}.",
                    follows_in_part=name == "NER")


CLAIMS = (
    *_ahead(),
    Claim("C-models-NER", "points", partial(gains_are_comparable, task="ner"), AGAINST_XLMR,
          "On NER the mean gains of mBERT and XLM-R are comparable (within 1 point), in both "
          "settings."),
)
# fmt: on
