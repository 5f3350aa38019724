"""Names of metrics, splits, stages and strategies in words that a reader without the code beside them understands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import METRICS

NAMED = re.compile(r"(accuracy|F1|BLEU)\b", re.IGNORECASE)  # what titles call a metric
STAGES = {"before": "before training", "first": "after epoch 1", "after": "after training"}


def metric_words(name: str) -> str:
    return METRICS[name].label if name in METRICS else name.replace("_", " ")


def score_words(metrics: Iterable[str]) -> str:
    """The name of the score of a study: its metric, where it has only one."""
    named = list(dict.fromkeys(map(metric_words, filter(None, metrics))))
    return named[0] if len(named) == 1 else "score"


def true_title(title: str, metrics: Iterable[str]) -> str:
    """A title that begins with the name of a metric, with that of the one shown: POS was once called accuracy, or plain F1."""
    name, named = score_words(metrics), NAMED.match(title)
    if named is None or name == "score" or title.lower().startswith(name.lower()):
        return title
    return sentence(name) + title[named.end() :]


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


def counted_as(name: str) -> str:
    """What the amount of a strategy counts; strategies that count the same share an axis."""
    return STRATEGIES[name].amount.axis if name in STRATEGIES else name


def split_words(name: str) -> str:
    """`dev@1` is the dev set scored with the weights after the first epoch."""
    base, _, epoch = name.partition("@")
    return f"the {base} set" + (f" after epoch {epoch}" if epoch else "")


def measured_words(metrics: Iterable[str], splits: Iterable[str]) -> str:
    """What a table's numbers are, and where that is not plain, what it means."""
    metrics = list(dict.fromkeys(metrics))
    named = " / ".join(dict.fromkeys(map(metric_words, metrics))) or "score"
    meaning = {name: METRICS[name].meaning for name in metrics if name in METRICS}
    meant = [
        text if len(metrics) == 1 else f"{metric_words(name)}: {text}"
        for name, text in meaning.items()
        if text
    ]
    return f"{named} on {' / '.join(map(split_words, dict.fromkeys(splits)))}" + (
        f" ({'; '.join(meant)})" if meant else ""
    )


def sentence(text: str) -> str:
    """With a capital at its start; what is a name already stays as it is."""
    return text[:1].upper() + text[1:]


def joined(*labels: Any, by: str = ", ") -> str:
    """Labels in a row, without those that a cell does not have."""
    return by.join(str(one) for one in labels if one not in (None, ""))
