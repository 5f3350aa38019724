"""Room 2: how much does each head matter? One file per method, and `rank`, which runs any of them.

A ranker is a frozen dataclass whose fields are its options. It is called with a model in evaluation
mode whose weights are frozen, the layout of the heads to score, and batches ready for
`model(**batch)` with their labels; it answers with one number per head, higher meaning more
important, and leaves the model as it found it. Importing this module loads no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_type_hints

from deadhead.errors import DeadheadError, UnknownName, unknown_name
from deadhead.layout import Head, HeadLayout

if TYPE_CHECKING:
    from torch import Tensor, nn

    from deadhead.ranking import Ranking

    from .label_free import Loss

    Batch = Mapping[str, Tensor]

# The methods, each as the module of this room and the class in it that is imported when asked for.
RANKERS: dict[str, str] = {
    "gradient": "gradient:Gradient",
    "taylor": "gradient:Taylor",
    "lrp": "lrp.method:LRP",
    "l0": "l0:L0",
    "shapley": "shapley:Shapley",
    "ablation": "ablation:Ablation",
    "entropy": "attention:Entropy",
    "confidence": "attention:Confidence",
}


METHOD = "taylor"  # by default: as near to leave-one-out as methods a hundred times dearer, see docs/results/rankers.md


class Progress(Protocol):
    """Told how far a ranker has come; `note` is a word on how it goes, such as the bound reached."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


class Ranker(Protocol):
    """What every method is: options as fields, and this call."""

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Batch],
        *,
        seed: int,
        progress: Progress,
    ) -> Mapping[Head, float]: ...


class Scores(dict[Head, float]):
    """Scores with what else a method found: `raw` values before it scaled them, and `details` fit for JSON.

    A plain dict is as good an answer for a ranker that has nothing more to say.
    """

    def __init__(
        self,
        scores: Mapping[Head, float],
        raw: Mapping[Head, float] | None = None,
        details: Mapping[str, Any] | None = None,
    ):
        super().__init__(scores)
        self.raw, self.details = raw, dict(details or {})


def silent(done: int, total: int, note: str = "") -> None:
    """The progress nobody watches."""


def ranker(method: str, **options: Any) -> Ranker:
    """The ranker of a name with these options, both checked."""
    kind = named("ranking method", method, RANKERS, __name__, options)
    wanted = get_type_hints(kind)
    for option, value in options.items():
        if not _fits(value, wanted[option]):
            default = next(field.default for field in fields(kind) if field.name == option)
            raise DeadheadError(
                f"the option {option} of {method} cannot be {value!r}.",
                f"give {_words(wanted[option])}, such as {default!r}",
            )
    return kind(**options)


def named(
    what: str, name: str, table: Mapping[str, str], package: str, options: Iterable[str]
) -> Any:
    """The dataclass that a table (name -> "module:Class" of the package) has under a name, if it knows all the options."""
    if name not in table:
        raise unknown_name(what, name, table)
    module, kind = table[name].split(":")
    found = getattr(importlib.import_module(f".{module}", package), kind)
    known = [field.name for field in fields(found)]
    for option in options:
        if option not in known:
            raise (
                unknown_name(f"option of {name}", option, known)
                if known
                else UnknownName(f"{name} has no options; met {option!r}.")
            )
    return found


def _fits(value: object, wanted: Any) -> bool:
    """Whether a value is of the type that a field of a ranker is declared with."""
    if isinstance(wanted, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if get_args(wanted):  # Sequence[float]
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(_fits(one, get_args(wanted)[0]) for one in value)
        )
    if wanted in (int, float):
        return isinstance(value, Integral if wanted is int else Real) and not isinstance(
            value, bool
        )
    return isinstance(value, wanted)


def _words(wanted: Any) -> str:
    """What a field takes, for people."""
    if isinstance(wanted, UnionType):
        return " or ".join(map(_words, get_args(wanted)))
    return {
        bool: "True or False",
        int: "a whole number",
        float: "a number",
        str: "a word",
        NoneType: "None",
    }.get(wanted, "a list of numbers")


def rank(
    model: nn.Module,
    batches: Iterable[Batch],
    method: str = METHOD,
    *,
    loss: Loss | str | None = None,
    seed: int = 0,
    closed: Iterable[Head | str] = (),
    progress: Progress = silent,
    data: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ranking:
    """Score every head of the model by a method of RANKERS.

    Args:
        batches: dicts ready for `model(**batch)`, with `labels`; how they are cut does not matter to most methods.
        loss: without labels, "self", the distance to what the whole model says, or a function of the model's outputs and the
            batch that gives one number per example. `entropy` and `confidence` need neither labels nor loss.
        closed: heads that are taken as gone while the others are scored, and get no score themselves.
        data: what the ranking should remember about the data, besides its size and fingerprint.
        options: the fields of the method's class, for instance `unit="per_token"`.

    The model comes back as it was: its mode, which of its parameters ask for gradients, its weights.

    >>> ranking = rank(model, batches)
    >>> prune(model, ranking.lowest(12))
    """
    needs_labels = check_method(method, loss, options)
    score = ranker(method, **options)
    from deadhead.heads.discover import discover
    from deadhead.heads.gates import gated
    from deadhead.ranking import Ranking
    from deadhead.version import versions

    from .check import check_batches, check_scores, describe, settled
    from .label_free import with_loss

    layout = discover(model)
    gone = layout.check(closed)
    left = layout.without(gone) if gone else layout
    with settled(model, seed), gated(model, closed=gone):
        checked = check_batches(model, batches, labels=needs_labels)
        measured = checked if loss is None else with_loss(model, checked, method, loss, seed)
        found = score(model, left, measured, seed=seed, progress=progress)
        check_scores(method, left, found)
    return Ranking(
        scores=dict(found),
        layout=layout,
        method=method,
        options={**asdict(score), **_loss_named(loss)},  # type: ignore[call-overload]
        model=_name(model),
        data={**describe(checked), **(data or {})},
        seed=seed,
        versions=versions(),
        raw=getattr(found, "raw", None),
        details=getattr(found, "details", {}),
    )


def check_method(method: str, loss: Loss | str | None, options: dict[str, Any]) -> bool:
    """An error unless there is such a method with these options and this loss; whether it needs labels.

    A measure that was left open becomes the loss, where one is given.
    """
    ranker(method, **options)
    from .label_free import BY_ATTENTION, check_loss

    check_loss(method, loss, options)
    return loss is None and method not in BY_ATTENTION


def _loss_named(loss: Loss | str | None) -> dict[str, str]:
    """The loss among the options of a ranking, if it was not that of labels."""
    return (
        {}
        if loss is None
        else {
            "loss": loss
            if isinstance(loss, str)
            else getattr(loss, "__name__", type(loss).__name__)
        }
    )


def _name(model: nn.Module) -> str:
    """What the model is called; of a folder only its last part, for where it lay is of no use elsewhere."""
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    return (Path(name).name if Path(name).is_dir() else name) or type(model).__name__


__all__ = [
    "METHOD",
    "RANKERS",
    "Progress",
    "Ranker",
    "Scores",
    "check_method",
    "rank",
    "ranker",
    "silent",
]
