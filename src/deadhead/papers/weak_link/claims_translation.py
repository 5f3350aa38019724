"""Claims of Budhraja et al. 2020 on a translation model: W1 to W5 and W17."""

import re
from dataclasses import replace
from functools import partial
from itertools import pairwise

from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import ON_WMT, TRANSLATORS, Claim, Scope, short
from deadhead.papers.claims.evidence import Evidence, Mean, all_of_wmt, group_by, means
from deadhead.papers.claims.from_papers import printed, stated
from deadhead.papers.claims.losses import (
    NEAR,
    at_random,
    falls_faster,
    loss_list,
    near,
    spread_of_draws,
)
from deadhead.papers.claims.verdict import (
    FAILS,
    HOLDS,
    UNSHOWN,
    Finding,
    Outcome,
    judged,
    listed,
    missing,
)

UP_TO_60 = {25, 35, 50, 55, 60}  # percent, as in table 1
PER_LAYER = r"per_layer [\d,/]+"
BLOCKS = ("encoder", "cross", "decoder")


def loss_up_to_60_percent(evidence: Evidence, limit: float) -> Finding:
    losses = [loss for loss in at_random(evidence) if loss.share <= 60 + NEAR]
    shares = {loss.share for loss in losses}
    if max(shares, default=0.0) < 50:
        return missing(
            "BLEU of a translation model, unpruned and without a random 50 to 60 % of its heads"
        )
    numbers = f"largest loss up to 60 %: {max(loss.points for loss in losses):.2f} BLEU"
    whole = all_of_wmt(loss.target for loss in losses) and shares == UP_TO_60
    leads = [limit - loss.points for loss in losses]
    outcome = rule.every(leads, whole, ties=True, noise=[loss.noise for loss in losses])
    return judged(outcome, numbers, [loss.cell for loss in losses])


def loss_at_75_percent(evidence: Evidence, limit: float) -> Finding:
    losses = near(evidence, 75)
    if not losses:
        return missing(
            "BLEU of an unpruned translation model and with 75 % of its heads removed at random"
        )
    leads, whole = [limit - loss.points for loss in losses], all_of_wmt(x.target for x in losses)
    outcome = rule.every(leads, whole, noise=[loss.noise for loss in losses])
    numbers = f"loss of BLEU: {loss_list(losses)}"
    return judged(outcome, numbers, [loss.cell for loss in losses])


def loss_with_one_head_per_layer(evidence: Evidence, en_ru: float, en_de: float) -> Finding:
    expected = {"en-ru": en_ru, "en-de": en_de}
    losses = [loss for loss in near(evidence, 87) if loss.target in expected]
    if not losses:
        return missing("BLEU on en-ru or en-de, unpruned and with one head kept in every layer")
    parts = []  # one number for each language pair
    for loss in losses:
        noise = rule.over_repeats([loss.cell.repeats])
        parts.append(rule.as_stated([loss.points], expected[loss.target], rule.BLEU, True, noise))
    numbers = f"loss of BLEU: {loss_list(losses)}"
    return judged(rule.worst(parts), numbers, [loss.cell for loss in losses])


def loss_grows_with_every_step(evidence: Evidence) -> Finding:
    losses = [loss for loss in at_random(evidence) if loss.share >= 60 - NEAR]
    steps, back, noise = [], [], []
    for (_, target), curve in group_by(losses, "task", "target").items():
        for low, high in pairwise(sorted(curve, key=lambda loss: loss.share)):
            steps.append(high.points - low.points)
            noise.append(rule.by_repeats(loss.cell.repeats for loss in (low, high)))
            if high.points < low.points:
                before = f"{low.points:.2f} lost at {low.share:g} %"
                back.append(f"{target}: {before}, {high.points:.2f} at {high.share:g} %")
    if len(steps) < 2:
        return missing("BLEU at three shares of heads removed at random from 60 % on")
    numbers = "; ".join(back) or f"{len(steps)} steps, the smallest {min(steps):.2f} BLEU"
    outcome = rule.every(steps, all_of_wmt(x.target for x in losses), ties=True, noise=noise)
    return judged(outcome, numbers, [loss.cell for loss in losses], rule.signs(steps))


def kept(remove: str) -> tuple[tuple[int, ...], ...]:
    """The heads kept, a tuple for each block, of `per_layer 888444/...` or `per_block 14/31/30`."""
    texts = remove.split(" ", 1)[1].split("/")
    if remove.startswith("per_block"):
        return tuple((int(text),) for text in texts)
    return tuple(tuple(map(int, text.split(",") if "," in text else text)) for text in texts)


def _by_kept(
    evidence: Evidence, pattern: str
) -> dict[tuple[str, tuple[tuple[int, ...], ...]], Mean]:
    """The cells by target and numbers of heads kept."""
    scores = [score for score in evidence.final if re.fullmatch(pattern, score.remove)]
    cells = means(scores, "target", "remove")
    return {(target, kept(remove)): cell for (target, remove), cell in cells.items()}


def important_layers_make_no_difference(evidence: Evidence) -> Finding:
    cells = _by_kept(evidence, PER_LAYER)
    differences, used, compared = {}, [], set()
    for (target, blocks), cell in cells.items():
        half = len(blocks[0]) // 2
        reversed_blocks = tuple(block[::-1] for block in blocks)
        reverse = cells.get((target, reversed_blocks))
        # The low layers of the encoder are important, and keep more heads.
        if reverse is not None and sum(blocks[0][:half]) > sum(blocks[0][-half:]):
            share = cell.scores[0].share
            differences["?" if share is None else f"{share:.0f}"] = cell.value - reverse.value
            used += [cell, reverse]
            compared |= {(target, blocks), (target, reversed_blocks)}
    if len(differences) < 2:
        return missing(
            "BLEU at two percentages, with the important layers keeping more heads and fewer heads"
        )
    values = list(differences.values())
    noise = rule.over_repeats((cell.repeats for cell in used), sides=2)
    each = listed(differences, "{} %: {:+.2f}")
    own_model = all(short(cell.scores[0].model) in TRANSLATORS.own for cell in used)
    whole = own_model and compared == set(_by_kept(printed("weak-link"), PER_LAYER))
    outcome = rule.level(values, rule.BLEU, whole, noise)
    return judged(outcome, f"kept minus pruned: {each}", used, rule.signs(values))


def each_block_is_best_somewhere(evidence: Evidence) -> Finding:
    groups: dict[tuple[str, tuple[int, ...]], dict[str, Mean]] = {}
    for (target, blocks), cell in _by_kept(evidence, r"per_block [\d/]+").items():
        counts = [block[0] for block in blocks]
        if len(counts) == 3:
            fewest = BLOCKS[counts.index(min(counts))]
            groups.setdefault((target, tuple(sorted(counts))), {})[fewest] = cell
    whole = [group for group in groups.values() if len(group) == 3]
    if len(whole) < 3:
        return missing(
            "BLEU at three percentages, each with the encoder, the cross and the decoder block "
            "keeping fewest"
        )
    best = [max(group, key=lambda name: group[name].value) for group in whole]
    at = ", ".join(
        f"{group[name].scores[0].share or 0:.0f} %: {name} fewest"
        for group, name in zip(whole, best, strict=True)
    )
    outcome = _each_best(whole, best) if len(set(best)) == 3 else _never_best(whole, best)
    used = [cell for group in whole for cell in group.values()]
    return judged(outcome, f"best at {at}", used)


def _each_best(groups: list[dict[str, Mean]], best: list[str]) -> Outcome:
    """Luck alone would make each block best somewhere in 4 of 9 tries: leads must exceed noise."""
    noise = rule.over_repeats(cell.repeats for group in groups for cell in group.values())
    leads: dict[str, float] = {}
    for group, name in zip(groups, best, strict=True):
        second = max(cell.value for other, cell in group.items() if other != name)
        leads[name] = max(leads.get(name, 0.0), group[name].value - second)
    least = min(leads.values())
    if noise is None:
        return Outcome(UNSHOWN, least, "no repeats: luck alone would do it in 4 of 9 tries")
    width = noise * (len(groups) * 3) ** 0.5 * 2**0.5  # of a difference of two cells
    basis = f"leads of {least:.2f} BLEU or more, 95 % interval +-{width:.2f}"
    return Outcome(HOLDS if least - width > 0 else UNSHOWN, least - width, basis)


def _never_best(groups: list[dict[str, Mean]], best: list[str]) -> Outcome:
    """A block that is nowhere best refutes it, if it is behind by more than chance everywhere."""
    outcomes = []
    for name in set(BLOCKS) - set(best):
        pairs = [(group[first], group[name]) for group, first in zip(groups, best, strict=True)]
        gaps, widths = rule.differences(pairs)
        bounds = (rule.ROUNDED if width is None else width for width in widths)
        clear = all(gap - bound > rule.SLACK for gap, bound in zip(gaps, bounds, strict=True))
        basis = f"at {len(groups)} percentages"
        if not clear:
            basis += ", with a block that is never best, but level with the best by its repeats"
        outcomes.append(Outcome(FAILS if clear else UNSHOWN, -min(gaps), basis))
    return rule.worst(outcomes)


says = partial(stated, "weak-link")
ON_WMT14 = Scope(models=TRANSLATORS, tasks=ON_WMT)
IN_GENERAL = replace(ON_WMT14, general=True)  # on heads of any model that translates

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    Claim("W1", "BLEU", loss_up_to_60_percent, ON_WMT14,
          "Removing up to 60 % of a translation model's heads at random costs at most {limit:g} "
          "BLEU, whatever the language pair.",
          numbers={"limit": says("max_bleu_drop_up_to_percent")}),
    Claim("W2", "BLEU", loss_at_75_percent, ON_WMT14,
          "Removing 75 % of a translation model's heads at random costs less than {limit:g} BLEU.",
          numbers={"limit": says("bleu_drop_upper_bound")}),
    Claim("W3", "BLEU", loss_with_one_head_per_layer, ON_WMT14,
          "Keeping one head in every layer (87 % removed) costs {en_ru:g} BLEU on en-ru and "
          "{en_de:g} on en-de.",
          numbers={"en_ru": says("bleu_drop_at_percent", target="en-ru"),
                   "en_de": says("bleu_drop_at_percent", target="en-de")}),
    Claim("W3a", "BLEU per tenth", partial(falls_faster, bend=60), IN_GENERAL,
          "BLEU falls faster beyond 60 % of the heads than up to there."),
    Claim("W3b", "BLEU", loss_grows_with_every_step, IN_GENERAL,
          "From 60 % of the heads on, every further cut costs more BLEU.", follows_in_part=True),
    Claim("W4", "BLEU", important_layers_make_no_difference, IN_GENERAL,
          "It makes no consistent difference whether the layers called important keep more heads "
          "or fewer."),
    Claim("W5", "BLEU", each_block_is_best_somewhere, IN_GENERAL,
          "Each of the three blocks is, at some percentage, the best one to take most heads from."),
    Claim("W17", "%", spread_of_draws, ON_WMT14,
          "Three draws of a translation model's heads differ by {deviation:g} % of the mean "
          "(standard deviation).",
          numbers={"deviation": says("std_as_percent_of_mean", model="transformer-base")}),
)
# fmt: on
