"""The cells of a study: each combination of the recipe's axes, with its labels and its record.

The axes of a cell are those of the recipe, and `language` (also called `target`), `setting`,
`strategy`, `amount`, and `learnt`: the languages trained on. Scores are in points: shares times
100, BLEU as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from deadhead.errors import DeadheadError
from deadhead.strategies import STRATEGIES
from deadhead.studies.store.records import Summary
from deadhead.studies.trial import Removal, label
from deadhead.tasks import points, task_of

from .model import Score

LANGUAGE = ("language", "target")
PRUNING = ("remove", "strategy", "amount", "draw", "arm", "k")  # axes that pruning changes
CHANCE = ("seed", "draw")  # axes that only repeat
APART = ("model", "task", "source")  # labels that distinguish recipes drawn together
NOTHING = {"remove": "none", "strategy": "none"}
LABELLED = ("model", "task", "source", "train", "seed", "remove")  # fixed fields in tables


Key = tuple[Any, ...]  # labels on some axes


class TaskInfo(NamedTuple):
    """The name of a task without the corpus, its kind, and the one metric that tables show."""

    name: str
    kind: str = ""
    metric: str = ""


@cache
def task_info(task: str) -> TaskInfo:
    """The name, kind and metric of a task of a recipe; the last two are empty if it is unknown."""
    try:
        described = task_of(task)
    except (DeadheadError, OSError):  # its task file may be missing
        return TaskInfo(task)
    return TaskInfo(described.name, described.kind, described.metric)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of the axes, with its record if there is one."""

    labels: Mapping[str, Any]  # as the recipe writes them
    axes: Mapping[str, Any]  # labels as tables name them, and the fixed fields of LABELLED
    trial: str
    unpruned: bool
    languages: tuple[str, ...]  # scored, now or later
    train: tuple[str, ...]  # languages trained on
    splits: tuple[str, ...]
    state: str  # done, failed, left
    summary: Summary | None = None

    @property
    def split(self) -> str:
        """The split that is reported unless the recipe names another."""
        return "test" if "test" in self.splits else self.splits[0]

    @property
    def metric(self) -> str:
        return task_info(str(self.axes.get("task"))).metric

    @property
    def seconds(self) -> float | None:
        """The time of all its steps; None if it did not run."""
        return None if self.summary is None else self.summary.seconds

    @property
    def parameters(self) -> int | None:
        """The parameters of the model that was scored; None if the record does not say."""
        cost = self.summary.cost if self.summary is not None else {}
        number = cost.get("parameters after", cost.get("parameters"))
        return number if isinstance(number, int) else None

    @property
    def names(self) -> Mapping[str, Any]:
        """Its axes for readers: without the draw if its trial draws nothing.

        Where a recipe has several draws, the unpruned model is one trial that belongs to all.
        """
        drawn = "draw" in self.summary.trial if self.summary is not None else not self.unpruned
        return self.axes if drawn else {n: v for n, v in self.axes.items() if n != "draw"}

    def axis(self, name: str, language: str = "") -> Any:
        if name in LANGUAGE:
            return language
        if name == "setting":
            return setting(self.learnt, language)
        if name == "learnt":
            return self.learnt
        return self.parts(language) if name == "parts" else self.axes.get(name)

    def key(self, axes: Iterable[str], language: str, variant: Mapping[str, str]) -> Key:
        """Its labels on these axes; a variant has those of a split and a metric."""
        return tuple(
            variant[axis] if axis in variant else self.axis(axis, language) for axis in axes
        )

    def field(self, name: str) -> Any:
        """A field of its trial: the label as the recipe writes it, also of what it fixes."""
        return self.summary.trial.get(name) if self.summary is not None else self.axes.get(name)

    def parts(self, language: str) -> Any:
        """Tenths of the language's training set that are trained on; None is all of it."""
        parts = label(_parts(self.summary, language))
        if parts is not None:
            return parts
        return self.axes.get("data.target_parts", self.axes.get("data.parts"))

    def without(self, *axes: str) -> frozenset[tuple[str, Any]]:
        """Its labels on all other axes: cells that share these differ in the axes at most."""
        return frozenset([pair for pair in self.axes.items() if pair[0] not in axes])

    def variants(self, names: Iterable[str]) -> list[dict[str, str]]:
        """The splits and metrics it was scored by, if these are axes of a table or figure."""
        positions = {"split": 1, "metric": 2}
        axes = [axis for axis in positions if axis in names]
        if not axes:
            return [{}]
        keys = (name.split("/") for name in (self.summary.metrics if self.summary else ()))
        distinct = dict.fromkeys(
            tuple(key[positions[axis]] for axis in axes) for key in keys if len(key) == 3
        )
        variants = [dict(zip(axes, labels, strict=True)) for labels in distinct]
        return variants or [dict.fromkeys(axes, "")]

    @property
    def learnt(self) -> str:
        """The languages trained on: `en+de`."""
        return "+".join(self.train)

    @cached_property
    def main_row(self) -> tuple[float | None, ...]:
        """The score in each of its languages, in the main metric and split."""
        return self.row()

    @property
    def is_for(self) -> list[str]:
        """The languages that its search is for."""
        source = str(self.axes.get("source", ""))
        return [name for name in self.languages if is_target(source, self.learnt, name)]

    @cached_property
    def scores(self) -> dict[str, float]:
        """The main score in each language that has one, in points."""
        pairs = zip(self.languages, self.main_row, strict=True)
        return {language: score for language, score in pairs if score is not None}

    def row(self, metric: str | None = None, split: str | None = None) -> tuple[float | None, ...]:
        """The score in each of its languages, in points; None where there is none (yet).

        split: `@1` for its own split, scored after the first epoch.
        """
        if self.summary is None or self.summary.state != "done":
            return (None,) * len(self.languages)
        name, split = metric or self.metric, split or ""
        split = self.split + split if split[:1] in ("", "@") else split
        known, scale = self.summary.metrics, points(name, 1.0)
        values = [known.get(f"{language}/{split}/{name}") for language in self.languages]
        return tuple([None if value is None else scale * value for value in values])

    def one_label(self, split: str) -> bool:
        """Whether the model predicts one label for everything it was trained on."""
        metrics = self.summary.metrics if self.summary else {}
        return one_label(metrics, self.train, split, self.metric)

    def common(self, target: str) -> dict[str, Any]:
        """What scores and searches in one language share."""
        trial = self.summary.trial if self.summary else {}
        dataset = str(trial.get("task", self.axes.get("task")))
        task, parts = task_info(dataset), _parts(self.summary, target)
        return {
            "model": str(trial.get("model", self.axes.get("model"))),
            "task": task.name,
            "kind": task.kind,
            "dataset": dataset,
            "source": str(self.axes.get("source") or self.learnt),
            "train": self.learnt,
            "target": target,
            "setting": setting(self.learnt, target),
            "parts": parts if isinstance(parts, int) else None,
        }

    def all_scores(self, share: float | None, metric: str = "") -> Iterator[Score]:
        """Every number of a done trial, or those of one metric; `share`: of the heads removed."""
        if self.summary is None or self.summary.state != "done":
            return
        trial = self.summary.trial
        fixed = {
            "trial": self.trial,
            "remove": str(self.axes.get("remove", "none")),
            "amount": self.axes.get("amount", 0),
            "draw": trial.get("draw"),
            "seed": trial.get("seed"),
            "arm": str(self.labels.get("arm", "")),
            "k": self.labels.get("k"),
            "rank": rank_label(trial),
            "share": share,
        }
        for name, value in self.summary.metrics.items():
            target, *rest = name.split("/")
            if len(rest) == 2 and value is not None and metric in ("", rest[1]):
                yield Score(
                    **fixed,
                    **self.common(target),
                    split=rest[0],
                    metric=rest[1],
                    value=points(rest[1], value),
                    one_label=self.one_label(rest[0].partition("@")[0]),
                )


def make_cell(
    fixed: Mapping[str, Any], labels: Mapping[str, Any], trial: str, summary: Summary | None
) -> Cell:
    """A cell out of the fixed fields of its recipe, its labels and its record."""
    fields = {**(summary.trial if summary is not None else {}), **fixed, **labels}
    remove = fields.get("remove")
    removal = None if remove == "none" else Removal.parse(remove)
    labelled = {**{name: fields[name] for name in LABELLED if name in fields}, **labels}
    axes = {name: label(value) for name, value in labelled.items()}
    if removal is not None:
        axes |= {"strategy": removal.strategy, "amount": label(removal.amount)}
    elif "remove" in fields:
        axes |= NOTHING
    train = as_tuple(fields.get("train", fields.get("source")))
    return Cell(
        labels=labels,
        axes=axes,
        trial=trial,
        unpruned=removal is None,
        languages=as_tuple(fields.get("targets")) or train,
        train=train,
        splits=as_tuple(fields.get("splits")) or ("test",),
        state="left" if summary is None else summary.state,
        summary=summary,
    )


def fixed_of(recipes: Sequence[Mapping[str, Any]], labels: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fixed fields of a cell's recipe: of those drawn together, the first that agrees."""
    parts = [as_dict(recipe.get("fixed")) for recipe in recipes]
    if len(parts) == 1:
        return parts[0]
    apart = {name: value for name, value in labels.items() if name in APART}
    agree = (part for part in parts if all(part.get(n, v) == v for n, v in apart.items()))
    return next(agree, {})


def as_tuple(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _parts(summary: Summary | None, language: str) -> Any:
    data = summary.trial.get("data") if summary is not None else None
    parts = data.get("parts") if isinstance(data, Mapping) else None
    return parts.get(language) if isinstance(parts, Mapping) else parts


def rank_label(trial: Mapping[str, Any]) -> str:
    """The ranking a trial used: "gradient", "lrp rule=alpha-beta", "gradient merge=md"."""
    rank = trial.get("rank")
    if not rank:
        return ""
    options = [f"{name}={rank[name]}" for name in ("rule", "merge") if name in rank]
    return " ".join([str(rank.get("method", "gradient")), *options])


def setting(train: str, target: str) -> str:
    """How a target relates to the languages trained on (`en+de`)."""
    languages = train.split("+")
    if target not in languages:
        return "cross-lingual"
    return "multi-lingual" if len(languages) > 1 else "mono-lingual"


def is_target(source: str, train: str, target: str) -> bool:
    """Whether a search is for this language.

    A source that is trained on beside others is scored only because its dev split chooses k.
    """
    return setting(train, target) != "multi-lingual" or target not in source.split("+")


def one_label(metrics: Mapping[str, float], train: Iterable[str], split: str, metric: str) -> bool:
    """Whether a model predicts one label for everything, which means that training failed.

    If a share a of the labels is that one, its F1 is 2a / (1 + a) and that of all others is 0, so
    that F1 divided by the mean is the number of labels: a whole number.
    """
    if metric not in ("accuracy", "micro_f1"):
        return False
    names = [name for lang in train if f"{(name := f'{lang}/{split}/')}{metric}" in metrics]
    for name in names:
        share, mean = metrics[name + metric], metrics.get(name + "macro_f1")
        labels = 2 * share / (1 + share) / mean if share and share > 0 and mean else 0.0
        if labels <= 1.5 or abs(labels - round(labels)) >= 1e-6:
            return False
    return bool(names)


def removes_nothing(text: str) -> bool:
    """Whether a removal, written as a label (`random 0`), takes no head."""
    name, _, rest = text.partition(" ")
    counts = name in STRATEGIES and STRATEGIES[name].amount.zero_is_nothing
    return counts and rest.partition(" ")[0] == "0"


def label_text(value: Any) -> str:
    """A label as it is compared: 50 and 50.0 and "50" are the same, and no label is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(label(value)).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def as_dict(value: Any) -> dict[str, Any]:
    """A mapping from a file that anybody may have written; empty if it is none."""
    return value if isinstance(value, dict) else {}


def parts_of(recipe: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The recipes that are drawn together: those included, and the recipe itself."""
    included = recipe.get("include")
    parts = included if isinstance(included, list) else ()
    return [*(part for part in parts if isinstance(part, dict)), recipe]


def selects(where: Mapping[str, Any], label_on: Callable[[str], Any]) -> bool:
    """Whether a table or figure selects what has these labels."""
    for axis, values in where.items():
        allowed: Iterable[Any] = values if isinstance(values, list) else [values]
        if label_text(label_on(axis)) not in {label_text(value) for value in allowed}:
            return False
    return True


def matches(cell: Cell, language: str, where: Mapping[str, Any]) -> bool:
    """Whether a cell is among those that a table or figure selects."""
    return selects(where, lambda axis: cell.axis(axis, language))
