"""What models lose without some heads: drawn at random, or all those of whole layers.

Random heads: by task, language and share of the heads. Whole layers: by which layers, and by way
to remove half of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

from deadhead.results import Score
from deadhead.results.statistics import drop
from deadhead.strategies import STRATEGIES, Strategy

from .evidence import GLUE, Evidence, Mean, all_of_glue, all_of_wmt, means
from .rule import ABOUT, FEWEST, SLACK, above, as_stated, by_repeats, over_repeats
from .verdict import Finding, Outcome, judged, missing

TaskLanguage = tuple[str, str]  # task and target language
Sets = dict[tuple[str, int], dict[TaskLanguage, Mean]]
Halves = dict[TaskLanguage, dict[str, Mean]]
BLOCKS = ("top", "bottom", "middle")  # adjacent layers
ALTERNATE = ("odd", "even")
HALVES = (*BLOCKS, *ALTERNATE, "ends")
NEAR = 2.5  # percent: how far a share of heads may be from the one named


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What one task loses in one language without a share of the heads."""

    task: str
    target: str
    cell: Mean
    full: Mean  # unpruned

    @property
    def share(self) -> float:
        return self.cell.scores[0].share or 0.0

    @property
    def points(self) -> float:
        return self.full.value - self.cell.value

    @property
    def percent(self) -> float:
        return drop(self.full.value, self.cell.value)

    @property
    def noise(self) -> float | None:
        """Half the interval that repeats give it."""
        return by_repeats([self.full.repeats, self.cell.repeats])


def _drawn() -> dict[str, Strategy]:
    """The strategies whose draws are independent of each other."""
    return {name: one for name, one in STRATEGIES.items() if one.draws and not one.nested}


def _evenly_drawn(evidence: Evidence) -> list[tuple[float, Score]]:
    """The scores without heads that were drawn from all layers alike, each with their share."""
    even = {name for name, strategy in _drawn().items() if strategy.even}
    scores = [score for score in evidence.final if score.strategy in even]
    return [(score.share, score) for score in scores if score.share is not None]


def at_random(evidence: Evidence) -> list[Loss]:
    """What is lost without heads that were drawn from all layers alike."""
    return find_losses(evidence, [score for _, score in _evenly_drawn(evidence)])


def near(evidence: Evidence, share: float) -> list[Loss]:
    """The same at one share of the heads: the nearest to it, if any is near."""
    distances = [(abs(removed - share), score) for removed, score in _evenly_drawn(evidence)]
    nearest = min((distance for distance, _ in distances), default=0.0)
    chosen = [s for distance, s in distances if distance <= min(nearest + SLACK, NEAR)]
    return find_losses(evidence, chosen)


def find_losses(evidence: Evidence, pruned: Iterable[Score], axis: str = "share") -> list[Loss]:
    """What pruned models lose where the unpruned score is known, for each value of the axis."""
    unpruned = [score for score in evidence.final if score.remove == "none" and score.value]
    full = means(unpruned, "task", "target")
    return [
        Loss(task=task, target=target, cell=cell, full=full[task, target])
        for (task, target, _), cell in means(pruned, "task", "target", axis).items()
        if (task, target) in full
    ]


def loss_list(losses: Iterable[Loss]) -> str:
    def where(loss: Loss) -> str:
        translated = loss.cell.scores[0].translated
        return loss.target if translated else place(loss.task, loss.target)

    return ", ".join(f"{where(loss)} {loss.share:g} %: {loss.points:+.2f}" for loss in losses)


def covers_glue(places: Iterable[TaskLanguage]) -> bool:
    return all_of_glue(task for task, _ in places)


def place(task: str, target: str) -> str:
    """A task and its language; those of GLUE have only one."""
    return task if task in GLUE else f"{task} {target}"


def noise(losses: Iterable[Loss]) -> float | None:
    """Half the interval that repeats of the pruned models give the mean loss."""
    return over_repeats(loss.cell.repeats for loss in losses)


def spread_of_draws(evidence: Evidence, deviation: float) -> Finding:
    """Whether repeated draws differ as stated: their standard deviation in percent of their mean.

    One training scored in many languages is one condition, with the mean deviation over them.
    """
    drawn = _drawn()
    scores = [score for score in evidence.final if score.strategy in drawn]
    conditions: dict[tuple[str, ...], list[Mean]] = {}
    for (*condition, _), cell in means(scores, "task", "source", "remove", "target").items():
        if len(cell.scores) >= FEWEST and cell.value:
            conditions.setdefault(tuple(condition), []).append(cell)
    if len(conditions) < FEWEST:
        return missing("three draws or more of each of three conditions with random heads removed")
    groups = conditions.values()
    values = [fmean(100 * stdev(cell.repeats) / cell.value for cell in cells) for cells in groups]
    over = f"over {len(values)} conditions (stated: {deviation:g} %)"
    numbers = f"sd {fmean(values):.3f} % of the mean {over}"
    outcome = as_stated(values, deviation, ABOUT * deviation)
    return judged(outcome, numbers, groups)


def falls_faster(evidence: Evidence, bend: float) -> Finding:
    """Whether the mean loss grows faster beyond a share of heads than up to it."""
    losses = at_random(evidence)
    by_share: dict[float, dict[TaskLanguage, float]] = {}
    for loss in losses:
        value = loss.points if loss.cell.scores[0].translated else loss.percent
        by_share.setdefault(loss.share, {})[loss.task, loss.target] = value
    most = max(map(len, by_share.values()), default=0)
    known = {share: values for share, values in sorted(by_share.items()) if len(values) == most}
    curve = {share: fmean(values.values()) for share, values in known.items()}
    at = min(curve, key=lambda share: abs(share - bend), default=0.0)
    last = max(curve, default=0.0)
    if abs(at - bend) > 10 or last <= at or at <= 0:
        return missing(f"scores without pruning, near {bend:g} % and beyond")
    before, beyond = 10 * curve[at] / at, 10 * (curve[last] - curve[at]) / (last - at)
    unit = "BLEU" if evidence.final[0].translated else "% of the score"
    after = f"{beyond:.2f} from there to {last:g} %"
    numbers = f"loss per tenth of the heads: {before:.2f} {unit} up to {at:g} %, {after}"
    places = known[at]
    leads = [
        10 * (known[last][where] - places[where]) / (last - at) - 10 * places[where] / at
        for where in places
    ]
    whole = all_of_wmt(target for _, target in places) or covers_glue(places)
    outcome = above(leads, 0.0, whole)
    return judged(outcome, numbers, [loss.cell for loss in losses])


def sets_of_layers(evidence: Evidence) -> Sets:
    """By (word, number of layers): the mean score at each place."""
    sets: Sets = {}
    cut = (score for score in evidence.final if score.shape)
    cells = means(cut, "shape", "task", "target")
    for (shape, task, target), cell in cells.items():
        sets.setdefault(shape, {})[task, target] = cell
    return sets


def middles(evidence: Evidence) -> Iterator[tuple[TaskLanguage, Mean, Mean, Mean]]:
    """At each place and for each number of layers: without the top, the middle, the bottom ones."""
    sets = sets_of_layers(evidence)
    for (word, n), cells in sets.items():
        for where, middle in cells.items() if word == "middle" else ():
            top, bottom = (sets.get((end, n), {}).get(where) for end in ("top", "bottom"))
            if top and bottom:
                yield where, top, middle, bottom


def lag(top: Mean, middle: Mean, bottom: Mean) -> float:
    """How far the score without the middle is behind those without the ends."""
    return (top.value + bottom.value) / 2 - middle.value


def halves(evidence: Evidence) -> Halves:
    """At each place, the ways to remove one number of layers: {"top": ..., "odd": ...}.

    It is the number that was removed in most ways. `odd` and `even` without a number count for it,
    if there are none with the number.
    """
    sets = sets_of_layers(evidence)
    numbers = {n for word, n in sets if n}
    half = max(numbers, key=lambda n: (sum((word, n) in sets for word in HALVES), n), default=0)
    places: Halves = {}
    for word in HALVES:
        without = sets.get((word, 0)) if word in ALTERNATE else None
        for where, cell in (sets.get((word, half)) or without or {}).items():
            places.setdefault(where, {})[word] = cell
    return places


def half_means(places: Halves) -> tuple[dict[str, float], list[Mean]]:
    """The mean over places of each way to remove half of the layers, and the cells behind them.

    Only ways that were tried at every place count.
    """
    groups = list(places.values())
    words = [word for word in (*BLOCKS, *ALTERNATE) if all(word in group for group in groups)]
    cells = [group[word] for group in groups for word in words]
    if not groups:
        return {}, cells
    return {word: fmean(group[word].value for group in groups) for word in words}, cells


def is_better(places: Halves, best: str, second: str, whole: bool) -> Outcome:
    """Whether one way is better than another on average."""
    pairs = [(group[best], group[second]) for group in places.values()]
    noise = over_repeats((cell.repeats for pair in pairs for cell in pair), sides=2)
    return above([first.value - other.value for first, other in pairs], 0.0, whole, noise)
