"""Claims of Budhraja et al. 2020 (weak-link) on a translation model: W1 to W5. Those on BERT are in `weak_link_bert.py`."""

from __future__ import annotations

import itertools
import re

from deadhead.claims.cases import all_of_wmt
from deadhead.claims.evidence import Evidence, Mean, means
from deadhead.claims.from_papers import stated
from deadhead.claims.losses import (
    NEAR,
    drawn,
    each_noise,
    final,
    lost,
    near,
    rest,
    scatter,
    sharper,
    told,
)
from deadhead.claims.rule import (
    BLEU,
    ROUNDED,
    as_stated,
    by_repeats,
    every,
    level,
    over_repeats,
    worst,
)
from deadhead.claims.scope import about
from deadhead.claims.strength import SLACK, signs, spread_words
from deadhead.claims.subjects import ON_WMT, TRANSLATORS
from deadhead.claims.verdict import FAILS, HOLDS, UNSHOWN, Claim, Finding, Shown, judged, missing

from .claims_bert import CLAIMS as ON_BERT

PAPER = "weak-link"
UP_TO_60 = {25, 35, 50, 55, 60}  # percent, as in table 1
CUTS = 5  # percentages of table 2
TRIPLES = 4  # percentages of table 3


def w1(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = lost(facts, [f for f in drawn(facts) if (f.share or 0) <= 60 + NEAR])
    if max((share for _, _, share in found), default=0.0) < 50:
        return missing(
            "BLEU of an unpruned translation model and with 50 to 60 % of its heads drawn out"
        )
    border = stated(PAPER, "max_bleu_drop_up_to_percent")
    cells = [cell for _, cell in found.values()]
    numbers = f"largest loss up to 60 %: {max(points for points, _ in found.values()):.2f} BLEU"
    whole = (
        all_of_wmt(target for _, target, _ in found) and {share for *_, share in found} == UP_TO_60
    )
    shown = every(
        [border - points for points, _ in found.values()],
        whole,
        ties=True,
        noise=each_noise(facts, found),
    )
    return judged(shown, numbers, spread_words(cells, evidence.printed), rest(found))


def w2(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = lost(facts, near(facts, 75))
    if not found:
        return missing("BLEU of an unpruned translation model and with 75 % of its heads drawn out")
    border, cells = stated(PAPER, "bleu_drop_upper_bound"), [cell for _, cell in found.values()]
    leads, whole = (
        [border - points for points, _ in found.values()],
        all_of_wmt(target for _, target, _ in found),
    )
    shown = every(leads, whole, noise=each_noise(facts, found))
    return judged(
        shown, f"loss of BLEU: {told(found)}", spread_words(cells, evidence.printed), rest(found)
    )


def w3(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = {
        key: value
        for key, value in lost(facts, near(facts, 87)).items()
        if key[1] in ("en-ru", "en-de")
    }
    if not found:
        return missing("BLEU on en-ru or en-de, unpruned and with one head kept in every layer")
    parts = []
    for (_, target, _), (points, cell) in found.items():
        wanted = stated(PAPER, "bleu_drop_at_percent", target=target)
        draws = over_repeats([[f.value for f in cell.scores]])
        parts.append(
            as_stated([points], wanted, BLEU, whole=True, noise=draws)
        )  # one number for each language pair
    cells = [cell for _, cell in found.values()]
    return judged(
        worst(parts),
        f"loss of BLEU: {told(found)}",
        spread_words(cells, evidence.printed),
        rest(found),
    )


def w3b(evidence: Evidence) -> Finding:
    facts = final(evidence)
    found = lost(facts, [f for f in drawn(facts) if (f.share or 0) >= 60 - NEAR])
    steps, back, draws = [], [], []
    for pair in dict.fromkeys(key[:2] for key in found):
        curve = sorted(
            (share, points) for (*at, share), (points, _) in found.items() if tuple(at) == pair
        )
        for (low, first), (high, second) in itertools.pairwise(curve):
            steps.append(second - first)
            draws.append(by_repeats(found[*pair, share][1].repeats for share in (low, high)))
            if second < first:
                back.append(f"{pair[1]}: {first:.2f} lost at {low:g} %, {second:.2f} at {high:g} %")
    if len(steps) < 2:
        return missing("BLEU at three shares of heads drawn from 60 % on")
    numbers = "; ".join(back) or f"{len(steps)} steps, the smallest {min(steps):.2f} BLEU"
    cells = [cell for _, cell in found.values()]
    shown = every(steps, all_of_wmt(target for _, target, _ in found), ties=True, noise=draws)
    return judged(
        shown, numbers, f"{signs(steps)}; {spread_words(cells, evidence.printed)}", rest(found)
    )


def kept(remove: str) -> tuple[tuple[int, ...], ...]:
    """The numbers of heads kept in `per_layer 888444/444888/888444` or `per_block 14/31/30`, a tuple for each block."""
    blocks = re.split(r"[/;]", remove.split(" ", 1)[1])
    texts = [block.split("=")[-1].strip() for block in blocks]
    if remove.startswith("per_block"):
        return tuple((int(text),) for text in texts)
    return tuple(tuple(map(int, text.split(",") if "," in text else text)) for text in texts)


def w4(evidence: Evidence) -> Finding:
    cells = means(
        [f for f in final(evidence) if re.fullmatch(r"per_layer [\d,/;=A-Za-z]+", f.remove)],
        "target",
        "remove",
    )
    by_kept = {(target, kept(remove)): cell for (target, remove), cell in cells.items()}
    differences, used = {}, []
    for (target, blocks), cell in by_kept.items():
        low, high = blocks[0][: len(blocks[0]) // 2], blocks[0][-(len(blocks[0]) // 2) :]
        other = by_kept.get((target, tuple(block[::-1] for block in blocks)))
        if other is not None and sum(low) > sum(
            high
        ):  # the low layers of the encoder are important, and keep more
            share = cell.scores[0].share
            differences["?" if share is None else f"{share:.0f}"] = cell.value - other.value
            used += [cell, other]
    if len(differences) < 2:
        return missing(
            "BLEU at two percentages, with the important layers keeping more heads and keeping fewer"
        )
    values = list(differences.values())
    shown = level(
        values,
        BLEU,
        len(values) == CUTS,
        over_repeats(([f.value for f in cell.scores] for cell in used), sides=2),
    )
    numbers = "kept minus pruned: " + ", ".join(
        f"{share} %: {value:+.2f}" for share, value in differences.items()
    )
    return judged(
        shown,
        numbers,
        f"{signs(values)}; {spread_words(used, evidence.printed)}",
        [f for c in used for f in c.scores],
    )


def w5(evidence: Evidence) -> Finding:
    cells = means(
        [f for f in final(evidence) if re.fullmatch(r"per_block [\d/;=A-Za-z]+", f.remove)],
        "target",
        "remove",
    )
    groups: dict[tuple[str, tuple[int, ...]], dict[str, Mean]] = {}
    for (target, remove), cell in cells.items():
        counts = [block[0] for block in kept(remove)]
        if len(counts) == 3:
            least = ("encoder", "cross", "decoder")[counts.index(min(counts))]
            groups.setdefault((target, tuple(sorted(counts))), {})[least] = cell
    whole = [group for group in groups.values() if len(group) == 3]
    if len(whole) < 3:
        return missing(
            "BLEU at three percentages, each with the encoder, the cross and the decoder block keeping fewest"
        )
    best = [max(group, key=lambda name: group[name].value) for group in whole]
    at = ", ".join(
        f"{group[name].scores[0].share or 0:.0f} %: {name} fewest"
        for group, name in zip(whole, best, strict=True)
    )
    used = [cell for group in whole for cell in group.values()]
    shown = _each_wins(whole, best)
    return judged(
        shown,
        f"best at {at}",
        spread_words(used, evidence.printed),
        [f for c in used for f in c.scores],
    )


def _each_wins(groups: list[dict[str, Mean]], best: list[str]) -> Shown:
    """Whether each block is best somewhere. Three of them would be, by luck, in 4 of 9 tries: their leads have to be beyond noise."""
    if len(set(best)) < 3:
        return _never_best(groups, best)
    draws = over_repeats(
        [f.value for f in cell.scores] for group in groups for cell in group.values()
    )
    leads: dict[str, float] = {}
    for group, name in zip(groups, best, strict=True):
        second = max(cell.value for other, cell in group.items() if other != name)
        leads[name] = max(leads.get(name, 0.0), group[name].value - second)
    if draws is None:
        return Shown(
            UNSHOWN, min(leads.values()), "no repeats: luck alone would do it in 4 of 9 tries"
        )
    alone = (
        draws * (len(groups) * 3) ** 0.5 * 2**0.5
    )  # of a difference of two cells, out of that of the mean of all
    clear = min(leads.values()) - alone
    return Shown(
        HOLDS if clear > 0 else UNSHOWN,
        clear,
        f"leads of {min(leads.values()):.2f} BLEU or more, 95 % interval +-{alone:.2f}",
    )


def _never_best(groups: list[dict[str, Mean]], best: list[str]) -> Shown:
    """A block that is nowhere best refutes it, if at every percentage it is behind by more than chance, or than rounding."""
    found = []
    for name in {"encoder", "cross", "decoder"} - set(best):
        pairs = [(group[first], group[name]) for group, first in zip(groups, best, strict=True)]
        gaps = [one.value - other.value for one, other in pairs]
        widths = [by_repeats(cell.repeats for cell in pair) for pair in pairs]
        clear = all(
            gap - (ROUNDED if width is None else width) > SLACK
            for gap, width in zip(gaps, widths, strict=True)
        )
        how = f"at {len(groups)} percentages" + (
            ""
            if clear
            else ", with a block that is never best, but level with the best by its repeats"
        )
        found.append(Shown(FAILS if clear else UNSHOWN, -min(gaps), how))
    return worst(found)


SD = stated(PAPER, "std_as_percent_of_mean", model="transformer-base")
GENERAL = {"W3a", "W3b", "W4", "W5"}  # on heads of any model that translates
CLAIMS = tuple(
    Claim(name, PAPER, statement, about(judge, TRANSLATORS, ON_WMT, general=name in GENERAL), unit)
    for name, unit, statement, judge in (
        ("W1", "BLEU", "Drawing out up to 60 % of a translation model's heads costs at most 0.15 BLEU, whatever the language pair.", w1),
        ("W2", "BLEU", "Drawing out 75 % of a translation model's heads costs less than 1 BLEU.", w2),
        ("W3", "BLEU", "Keeping one head in every layer (87 % gone) costs 1.62 BLEU on en-ru and 1.03 on en-de.", w3),
        ("W3a", "BLEU per tenth", "BLEU falls faster beyond 60 % of the heads than up to there.", lambda e: sharper(e, 60)),
        ("W3b", "BLEU", "From 60 % of the heads on, every further cut costs more BLEU.", w3b),
        ("W4", "BLEU", "It makes no consistent difference whether the layers called important keep more heads or fewer.", w4),
        ("W5", "BLEU", "Each of the three blocks is, at some percentage, the best one to take most heads from.", w5),
        ("W17", "%", f"Three draws of a translation model's heads differ by {SD:g} % of the mean (standard deviation).", lambda e: scatter(e, SD)),
    )
) + ON_BERT  # fmt: skip
