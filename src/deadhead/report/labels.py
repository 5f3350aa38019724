"""Names of metrics, splits, stages and strategies in words for readers of the page."""

from collections.abc import Iterable
from typing import Any

from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import METRICS, sign

STAGES = {"before": "before training", "first": "after epoch 1", "after": "after training"}


def metric_words(name: str) -> str:
    return METRICS[name].label if name in METRICS else name.replace("_", " ")


def score_words(metrics: Iterable[str]) -> str:
    """The name of a study's score: its metric if it has only one."""
    names = list(dict.fromkeys(map(metric_words, metrics)))
    return names[0] if len(names) == 1 else "score"


def score_axis(metrics: Iterable[str]) -> str:
    """The title of an axis of scores: their name and unit."""
    names = [*metrics]
    return f"{score_words(names)}{unit_of(names, ', ')}"


def unit_of(metrics: Iterable[str], before: str = " ") -> str:
    """The unit of scores behind what stands before it: points, or nothing for perplexities."""
    return "" if any(sign(metric) < 0 for metric in metrics) else f"{before}points"


def removal_words(label: str) -> str:
    """The label of a removal with its unit: `random 50` is a share, `random_k 6` counts heads."""
    name, _, rest = label.partition(" ")
    amount, _, options = rest.partition(" ")
    unit = STRATEGIES[name].amount.unit if name in STRATEGIES else ""
    if not unit or not amount.replace(".", "", 1).isdigit():
        return label
    unit = unit.removesuffix("s") if amount == "1" else unit
    return joined(STRATEGIES[name].short or name, amount, unit, options, by=" ")


def strategy_words(name: str) -> str:
    """A strategy in a legend."""
    return STRATEGIES[name].label if name in STRATEGIES else name


def removal_unit(strategy: str) -> str:
    """What the amounts of a strategy count; strategies that count the same can share an axis."""
    return STRATEGIES[strategy].amount.axis if strategy in STRATEGIES else strategy


def split_words(name: str) -> str:
    """`dev@1` is the dev set scored with the weights after the first epoch."""
    base, _, epoch = name.partition("@")
    return f"the {base} set" + (f" after epoch {epoch}" if epoch else "")


def measured_words(metrics: Iterable[str], splits: Iterable[str]) -> str:
    """The metric and the split of a table, and what the metric means if that is not obvious."""
    metrics = list(dict.fromkeys(metrics))
    names = " / ".join(dict.fromkeys(map(metric_words, metrics))) or "score"
    meaning_of = {name: METRICS[name].meaning for name in metrics if name in METRICS}
    meanings = [
        meaning if len(metrics) == 1 else f"{metric_words(name)}: {meaning}"
        for name, meaning in meaning_of.items()
        if meaning
    ]
    text = f"{names} on {' / '.join(map(split_words, dict.fromkeys(splits)))}"
    return f"{text} ({'; '.join(meanings)})" if meanings else text


def capitalized(text: str) -> str:
    """The text with a capital first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def joined(*labels: Any, by: str = ", ") -> str:
    """Labels in a row, without empty ones."""
    return by.join(str(label) for label in labels if label not in (None, ""))
