"""Tidy scores: one row for each number a study measured, and one row for each search and language.

`scores(folder)` has a row per cell, language, split and metric, with the words tables speak in; `pairs(folder)`
has a row per search and target language, with the unpruned score and every arm. Tables, figures and
claims read these two and know nothing of records. Whoever asks a large study several things reads it once,
as `Studied`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from deadhead.studies.recipe.expand import label, strategy_of
from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Summary, scan
from deadhead.studies.study import described
from deadhead.studies.trial import removal

from .search import Arm, arms_among

SETTINGS = ("cross-lingual", "multi-lingual", "mono-lingual")


@dataclass(frozen=True)
class Score:
    """One number, and all that tells it from the others."""

    trial: str  # the id of its record
    model: str
    task: str
    source: str  # en, or en+de where there are several
    train: str  # the languages of the training that is scored
    target: str  # the language scored
    setting: str  # of SETTINGS
    remove: str  # "none", "random 50", "layers top 3"
    strategy: str  # "" where nothing is removed
    amount: Any  # in the strategy's own measure; 0 where nothing is removed
    draw: int | None  # None where nothing is drawn
    seed: int | None
    arm: str  # of a search: full, lowest, seeds, random, highest; else ""
    k: int | None  # heads removed by a search
    parts: int | None  # tenths of the target's training set, where not all of it
    split: str  # "test", or "test@1" for the weights after the first epoch
    metric: str
    value: float
    rank: str = ""  # the method heads were ranked by, "gradient" or "gradient merge=md"; "" where no rank mattered


def one_label(metrics: Mapping[str, float], learnt: Iterable[str], split: str, metric: str) -> bool:
    """Whether a model gives one and the same label to everything in what it learnt, as it does where training failed.

    With a share a right that label has an F1 of 2a / (1 + a) and every other 0, so that their mean tells a whole number of labels.
    """
    names = [f"{one}/{split}/" for one in learnt if metric in ("accuracy", "micro_f1")]
    sides = [
        (metrics.get(name + metric), metrics.get(name + "macro_f1"))
        for name in names
        if name + metric in metrics
    ]
    labels = [2 * right / (1 + right) / mean if right and mean else 0.0 for right, mean in sides]
    return bool(labels) and all(
        number > 1.5 and abs(number - round(number)) < 1e-6 for number in labels
    )


@dataclass(frozen=True)
class Pair:
    """One search scored in one language: from a source to a target."""

    model: str
    task: str
    source: str
    target: str
    setting: str
    group: tuple[tuple[str, Any], ...]  # the labels that tell this search from others of the study
    unpruned: float
    lowest: Arm | None  # None where the study has no such arm
    controls: Mapping[str, Arm]  # by name: seeds, random, highest
    rank: str = ""
    parts: int | None = None
    train: str = ""  # the languages of the training that is scored


@contextmanager
def unhurried() -> Iterator[None]:
    """Without the search for garbage, which would look through the hundred thousands of numbers of a large study again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@dataclass(frozen=True)
class Studied:
    """A study that was read: what it is, and the summaries of its records."""

    home: Path
    told: Mapping[str, Any]  # as `run` wrote it down: name, recipe, cells
    known: Mapping[str, Summary]
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used

    @classmethod
    def at(cls, folder: str | Path | Studied) -> Studied:
        """The study in a folder; one that was read already is not read again."""
        if isinstance(folder, Studied):
            return folder
        home = place.inside(Path(folder))
        told, found = described(home), scan(home)
        return cls(home, told, found.known, tuple(found.damaged))

    def scores(
        self, arms: Collection[str] | None = None, metric: Callable[[str], str] | None = None
    ) -> list[Score]:
        """Every number of every done trial; cells that share a trial and differ in nothing a score tells are one row.

        arms: only cells of these; "" is of those that are of no search.
        metric: from a task to the one metric that is asked for.
        """
        found: dict[Score, None] = {}
        for labels, trial in self.told["cells"]:
            record = self.known.get(trial)
            if (
                record is not None
                and record.state == "done"
                and (arms is None or _arm(labels) in arms)
            ):
                found |= dict.fromkeys(
                    _rows(_fields(self.told, labels, record.trial), labels, record, metric)
                )
        return list(found)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every search in every language it was scored in; those whose unpruned model is not done are left out."""
        found: dict[tuple[Any, ...], list[Arm]] = {}
        for arm in arms_among(self.told["cells"], self.known):
            found.setdefault((tuple(arm.labels.items()), arm.language), []).append(arm)
        made = (
            _pair(self.told, self.known, group, language, several)
            for (group, language), several in found.items()
        )
        return [pair for pair in made if is_target(pair.source, pair.train, pair.target)]


def scores(folder: str | Path) -> list[Score]:
    """Every number of every done trial; cells that share a trial and differ in nothing above are one row."""
    return Studied.at(folder).scores()


def pairs(folder: str | Path) -> list[Pair]:
    """Every search in every language it was scored in; those whose unpruned model is not done are left out."""
    return Studied.at(folder).pairs


def _pair(
    study: Mapping[str, Any],
    known: Mapping[str, Summary],
    group: Any,
    target: str,
    several: list[Arm],
) -> Pair:
    labels, by_name = dict(group), {arm.arm: arm for arm in several}
    full, ranked = several[0].trials[0], by_name.get("lowest")
    fields = {
        **_fields(study, {}, known[full].trial),
        **{name: value for name, value in labels.items() if "." not in name},
    }
    pruned = (
        next((known[trial].trial for k, trial in ranked.trials.items() if k), {}) if ranked else {}
    )
    train = _joined(fields.get("train") or fields.get("source"))
    return Pair(
        str(fields.get("model")),
        str(fields.get("task")),
        _joined(fields.get("source") or train),
        target,
        setting(train, target),
        tuple(labels.items()),
        several[0].full,
        ranked,
        {name: arm for name, arm in by_name.items() if name != "lowest"},
        _ranked(pruned),
        _parts(fields, target),
        train,
    )


def _fields(
    study: Mapping[str, Any], labels: Mapping[str, Any], trial: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a cell. A trial leaves out what did not shape it, such as the source of an unpruned one: the recipe knows."""
    asked = {
        **(study["recipe"].get("fixed") or {}),
        **{n: v for n, v in labels.items() if "." not in n},
    }
    return {
        **asked,
        **trial,
        **{name: asked[name] for name in ("source", "train") if name in asked},
    }


def _rows(
    fields: Mapping[str, Any],
    labels: Mapping[str, Any],
    record: Summary,
    only: Callable[[str], str] | None = None,
) -> Iterator[Score]:
    gone = removal(labels.get("remove", fields.get("remove")))
    remove = labels.get("remove", fields.get("remove")) if gone else "none"
    train = _joined(fields.get("train") or fields.get("source"))
    written, strategy, ranked = (
        str(label(remove)),
        strategy_of(remove) or "",
        _ranked(record.trial),
    )  # once, not for each number
    end = f"/{only(str(fields.get('task')))}" if only else ""
    for name, value in record.metrics.items():
        if name.count("/") != 2 or value is None or not name.endswith(end):
            continue
        target, split, metric = name.split("/")
        yield Score(
            record.id,
            str(fields.get("model")),
            str(fields.get("task")),
            _joined(fields.get("source") or train),
            train,
            target,
            setting(train, target),
            written,
            strategy,
            _plain(gone[1]) if gone else 0,
            record.trial.get("draw"),
            record.trial.get("seed"),
            _arm(labels),
            labels.get("k"),
            _parts(fields, target),
            split,
            metric,
            value,
            ranked,
        )


def _arm(labels: Mapping[str, Any]) -> str:
    return str(labels.get("arm", ""))


def setting(train: str, target: str) -> str:
    """What a training on these languages (`en+de`) is to a target."""
    learnt = train.split("+")
    if target not in learnt:
        return "cross-lingual"
    return "multi-lingual" if len(learnt) > 1 else "mono-lingual"


def is_target(source: str, train: str, target: str) -> bool:
    """Whether a language is what a search is for. A source that is trained on beside others is scored only for its dev to choose by."""
    return setting(train, target) != "multi-lingual" or target not in source.split("+")


def _joined(languages: Any) -> str:
    return languages if isinstance(languages, str) else "+".join(languages or ())


def _parts(fields: Mapping[str, Any], target: str) -> int | None:
    parts = (fields.get("data") or {}).get("parts")
    number = parts.get(target) if isinstance(parts, Mapping) else parts
    return number if isinstance(number, int) else None


def _ranked(trial: Mapping[str, Any]) -> str:
    rank = trial.get("rank")
    if not rank:
        return ""
    apart = [
        f"{name}={rank[name]}" for name in ("rule", "merge") if name in rank
    ]  # of LRP, and of several rankings
    return " ".join([str(rank.get("method", "gradient")), *apart])


def _plain(amount: Any) -> Any:
    """An amount as a value that can be compared and hashed."""
    return amount if isinstance(amount, int | float | str) else str(label(amount))
