"""The ranking methods: `RANKERS` has the class of each. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadhead.errors import DeadheadError, UnknownName
from deadhead.registry import Registry
from deadhead.registry import options as checker

from .ranker import Ranker

if TYPE_CHECKING:
    from .label_free import Loss

RANKERS: Registry[type[Ranker]] = Registry(
    "ranking method",
    __package__,
    {
        "gradient": "gradient:Gradient",
        "taylor": "gradient:Taylor",
        "fisher": "fisher:Fisher",
        "lrp": "lrp.method:LRP",
        "l0": "l0:L0",
        "shapley": "shapley:Shapley",
        "ablation": "ablation:Ablation",
        "attribution": "attribution:Attribution",
        "entropy": "attention:Entropy",
        "confidence": "attention:Confidence",
        "similarity": "similarity:Similarity",
    },
)
# By default: as near to leave-one-out as methods a hundred times slower (docs/results/rankers.md).
METHOD = "taylor"


def ranker(method: str, **options: Any) -> Ranker:
    """The ranker of a name with these options, both checked."""
    for name, problem in checker.problems(method, RANKERS[method], options):
        others = [other for other in RANKERS if name in checker.options_of(RANKERS[other])]
        if isinstance(problem, UnknownName) and others:
            raise UnknownName(problem.message, f"{name} is an option of {', '.join(others)}")
        raise problem
    return RANKERS[method](**options)


def check_method(
    method: str, loss: Loss | str | None, options: Mapping[str, Any], checkpointing: bool = False
) -> bool:
    """Raise an error unless the method has these options and works with this loss.

    Returns whether it then needs labels.
    """
    score = checked(method, loss, options, checkpointing)
    return loss is None and score.reads != "inputs"


def checked(
    method: str,
    loss: Loss | str | None,
    options: Mapping[str, Any],
    checkpointing: bool = False,
    fill: str | None = None,
) -> Ranker:
    """The ranker that measures by this loss; an error where it cannot do what is asked of it.

    fill: what replaces closed heads besides the option of this name.
    """
    score = _for_loss(method, loss, options)
    if checkpointing and not score.differentiates:
        names = [name for name in RANKERS if RANKERS[name].differentiates]
        hint = f"leave it out, or rank by one of {', '.join(names)}"
        raise DeadheadError(f"{method} has no checkpointing.", hint)
    if fill and not score.takes_fill:
        names = [name for name in RANKERS if RANKERS[name].takes_fill]
        hint = f"leave it out, or rank by one of {', '.join(names)}"
        raise DeadheadError(f"{method} takes no {fill}.", hint)
    if fill and "fill" in options:
        hint = "leave one of them out"
        raise DeadheadError(f"{fill} are the fill, but fill is given too.", hint)
    return score


def _for_loss(method: str, loss: Loss | str | None, options: Mapping[str, Any]) -> Ranker:
    """The ranker that measures by this loss; with a loss, its `measure` is the loss by default."""
    if loss is None:
        return ranker(method, **options)
    from .label_free import check_loss

    check_loss(loss)
    measured = "measure" in checker.options_of(RANKERS[method])
    score = ranker(method, **{**({"measure": "loss"} if measured else {}), **options})
    if score.reads == "inputs":
        hint = "leave the loss out: it needs no labels either"
        raise DeadheadError(f"{method} reads the inputs alone and uses no loss.", hint)
    if score.reads == "labels":
        hint = "rank by taylor, ablation, shapley or l0"
        raise DeadheadError(f"{method} explains the logit of a class and uses no loss.", hint)
    if getattr(score, "measure", "loss") == "accuracy":
        hint = "leave the measure out, or give measure=loss"
        raise DeadheadError("measure=accuracy needs labels, not a loss.", hint)
    if not callable(loss) and score.differentiates and score.in_file_order:
        raise DeadheadError(
            f"unit={options['unit']} adds up gradients before it takes their size, and those of a "
            "probe have random signs.",
            "leave the unit out, or give per_example or per_token",
        )
    return score
