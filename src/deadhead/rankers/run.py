"""Run a ranker on a model: freeze the model, check data and scores, restore the model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deadhead.errors import DeadheadError, UnsupportedModel
from deadhead.heads.discover import discover
from deadhead.heads.gates import gated
from deadhead.heads.hooks import is_resampled
from deadhead.heads.layers import checkpointed
from deadhead.layout import Batch, Head, HeadLayout
from deadhead.numerics import computing
from deadhead.ranking import Ranking
from deadhead.version import versions

from .batches import check_batches, describe
from .label_free import Loss, with_loss
from .loss import CORRUPT, right_padded
from .pairs import check_pairs, listed
from .ranker import Progress, Ranker, RankerInputs


def run(
    model: nn.Module,
    batches: Iterable[Batch],
    score: Ranker,
    *,
    method: str,
    loss: Loss | str | None,
    corrupt: Iterable[Batch] | None,
    seed: int,
    closed: Iterable[Head | str],
    checkpointing: bool,
    progress: Progress,
    data: Mapping[str, Any],
) -> Ranking:
    """The ranking that a ranker makes of the heads of a model that are not closed."""
    layout = discover(model)
    refuse_resampling(model)
    removed = layout.check(closed)
    left = layout.without(removed) if removed else layout
    needs_labels = loss is None and score.reads != "inputs"
    kept = checkpointed(model) if checkpointing else nullcontext()
    with frozen(model, seed), gated(model, closed=removed), kept:
        checked = check_batches(model, batches, labels=needs_labels)
        facts = {**describe(checked), **data}
        if corrupt is not None:
            checked, facts["corrupt"] = _with_corrupt(model, checked, corrupt)
        probed = score.differentiates
        measured = checked if loss is None else with_loss(model, checked, loss, probed, seed)
        scores = score(
            RankerInputs(model=model, layout=left, batches=measured, seed=seed, progress=progress)
        )
        check_scores(method, left, scores)
    filled = {} if corrupt is None else {"fill": "corrupt"}
    return Ranking(
        scores=dict(scores),
        layout=layout,
        method=method,
        options={**asdict(score), **_loss_option(loss), **filled},  # type: ignore[call-overload]
        model=_name(model),
        data=facts,
        seed=seed,
        versions=versions(),
        raw=getattr(scores, "raw", None),
        details=getattr(scores, "details", {}),
    )


def _with_corrupt(
    model: nn.Module, batches: Sequence[Batch], corrupt: Iterable[Batch]
) -> tuple[list[Batch], str]:
    """The batches, each with its corrupt batch; and a hash of those."""
    others = [right_padded(model, batch) for batch in listed("corrupt", corrupt)]
    pairs = check_pairs(batches, others)
    return [{**clean, CORRUPT: other} for clean, other in pairs], describe(others)["fingerprint"]


@contextmanager
def frozen(model: nn.Module, seed: int) -> Iterator[None]:
    """Evaluation mode, frozen weights and a seeded generator; all restored afterwards."""
    check_seed(seed)
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise UnsupportedModel(
            "the weights were made under torch.inference_mode, which allows no gradients.",
            "load the model outside of torch.inference_mode()",
        )
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with (
        torch.random.fork_rng(),
        torch.inference_mode(False),
        torch.enable_grad(),
        computing(model),
    ):
        torch.manual_seed(seed)
        try:
            model.eval()
            for parameter, _ in flags:
                parameter.requires_grad_(False)
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


def check_seed(seed: object) -> None:
    """Raise an error for what no generator of torch takes."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(1 << 63) <= seed < 1 << 64:
        expected = "a whole number from -2^63 to below 2^64"
        raise DeadheadError(f"`seed` expects {expected}, got {seed!r}.", "for instance seed=0")


def refuse_resampling(model: nn.Module) -> None:
    """Raise an error inside of gated(model, fill="resample"), whose fill depends on the batch.

    Most methods divide a batch or copy it for every head, so the other examples would be others.
    """
    if is_resampled(model):
        raise UnsupportedModel(
            'expected a model without fill="resample", got one inside such a block.',
            "leave the block, or fill with the means of the heads: fill=head_means(model, batches)",
        )


def check_scores(method: str, layout: HeadLayout, scores: Mapping[Head, float]) -> None:
    """Raise an error unless every head of the layout, and no other, has a finite score."""
    for head in layout:
        if not torch.tensor(scores.get(head, float("nan"))).isfinite():
            value = f"the score {scores[head]}" if head in scores else "no score"
            raise DeadheadError(
                f"{method} gave {value} to head {head}.",
                "check the model's weights and outputs for nan or infinity",
            )
    extra = [head for head in scores if head not in layout]
    if extra:
        raise DeadheadError(f"{method} scored a head that it was not asked to score: {extra[0]}.")


def _loss_option(loss: Loss | str | None) -> dict[str, str]:
    """The loss among the options of a ranking, where it replaced labels."""
    if loss is None or isinstance(loss, str):
        return {} if loss is None else {"loss": loss}
    return {"loss": getattr(loss, "__name__", type(loss).__name__)}


def _name(model: nn.Module) -> str:
    """The name of the model; of a folder only its last part, the rest means nothing elsewhere."""
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    return (Path(name).name if Path(name).exists() else name) or type(model).__name__
