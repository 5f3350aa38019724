"""`rank`: freeze the model, check data and scores, restore the model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deadhead.display.progress import Progress, reported, stage
from deadhead.errors import DeadheadError, UnsupportedModel
from deadhead.heads.call import Calls
from deadhead.heads.discover import discover, find_sites
from deadhead.heads.gates import gated
from deadhead.heads.hooks import hooked, is_resampled
from deadhead.heads.layers import checkpointed
from deadhead.heads.means import evaluating
from deadhead.heads.streaming import Streaming, StreamingOutputs
from deadhead.layout import Batch, Head, HeadLayout
from deadhead.numerics import computing
from deadhead.ranking import Ranking
from deadhead.version import versions

from .batches import check_batches, check_pairs, describe, listed
from .label_free import Loss, with_default_loss, with_loss
from .loss import CORRUPT, right_padded
from .methods import METHOD, checked
from .ranker import RankerInputs


def rank(
    model: nn.Module,
    batches: Iterable[Batch],
    method: str = METHOD,
    *,
    loss: Loss | str | None = None,
    corrupt: Iterable[Batch] | None = None,
    streaming: Streaming | None = None,
    seed: int = 0,
    closed: Iterable[Head | str] = (),
    checkpointing: bool = False,
    progress: bool | Progress = True,
    data: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ranking:
    """Score every head of the model by a method of RANKERS.

    Args:
        batches: dicts ready for `model(**batch)`, with `labels`; how the data is divided into
            batches does not matter to most methods.
        loss: without labels, "self", the distance to the output of the whole model; "embedding",
            that of the embeddings of a sentence encoder, whose default it is; or a function of the
            model's outputs and the batch that gives one number per example. `entropy`,
            `confidence` and `similarity` need neither labels nor loss.
        corrupt: for `attribution`, `ablation` and `fisher`, a batch for each of `batches`, of the
            same shape and padding: a closed head is filled with its output there.
        streaming: for the same methods, Streaming(sink=4, recent=256): a closed head still sees
            the first and the recent tokens, so a score says how much it needs the distance. Heads
            of cross-attention get no score.
        closed: heads that count as removed while the others are scored; they get no score.
        checkpointing: for methods of gradients at gates, compute the activations of layers again
            instead of keeping them: less memory, about a third more time, the same numbers.
        progress: show a bar in a terminal or a notebook; or a function that is called with the
            number of steps done, their total and a note.
        data: what the ranking should remember about the data, besides its size and fingerprint.
        options: the fields of the method's class, for instance `unit="per_token"`.

    The model comes back as it was: its mode, its weights, and which of them require gradients.

    >>> ranking = rank(model, batches)
    >>> prune(model, ranking.lowest(12))
    """
    fill = _fill(corrupt, streaming)
    score = checked(method, loss, options, checkpointing, fill)
    if score.reads == "labels or a loss":
        batches, loss = with_default_loss(model, batches, loss)
        score = checked(method, loss, options, checkpointing, fill)
    stage(f"ranking by {method}")
    layout = discover(model)
    refuse_resampling(model)
    removed = layout.check(closed)
    left = layout.without(removed) if removed else layout
    if streaming is not None:  # a head of cross-attention has no distances
        left = left.without([head for head in left if head.block == "cross"])
    needs_labels = loss is None and score.reads != "inputs"
    kept = checkpointed(model) if checkpointing else nullcontext()
    with (
        reported(progress, method) as count,
        frozen(model, seed),
        gated(model, closed=removed),
        kept,
        _streaming_outputs(model, streaming, removed) as outputs,
    ):
        measured = check_batches(model, batches, labels=needs_labels)
        if needs_labels:
            _check_measure(score, measured)
        facts = {**describe(measured), **(data or {})}
        if corrupt is not None:
            measured, facts["corrupt"] = _with_corrupt(model, measured, corrupt)
        if loss is not None:
            measured = with_loss(model, measured, loss, score.probed, seed)
        scores = score(
            RankerInputs(
                model=model,
                layout=left,
                batches=measured,
                seed=seed,
                streaming=outputs,
                progress=count,
            )
        )
        check_scores(method, left, scores)
    filled = {} if corrupt is None else {"fill": "corrupt"}
    if streaming is not None:
        filled = {"fill": "streaming", **asdict(streaming)}
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


def _fill(corrupt: object, streaming: object) -> str | None:
    """What replaces closed heads, in words; None: the option of the method."""
    if corrupt is not None and streaming is not None:
        hint = "leave one of them out"
        raise DeadheadError("expected corrupt batches or streaming, got both.", hint)
    if streaming is not None and not isinstance(streaming, Streaming):
        hint = "write streaming=Streaming(sink=4, recent=256)"
        raise DeadheadError(f"`streaming` expects Streaming(...), got {streaming!r}.", hint)
    return "corrupt batches" if corrupt is not None else "streaming heads" if streaming else None


@contextmanager
def _streaming_outputs(
    model: nn.Module, window: Streaming | None, closed: Iterable[Head]
) -> Iterator[StreamingOutputs | None]:
    if window is None:
        yield None
        return
    sites = [site for site in find_sites(model) if site.block != "cross"]
    with hooked(model, sites) as stack:
        yield StreamingOutputs(window, sites, Calls(model, stack), stack, closed)


def _check_measure(score: Any, batches: Sequence[Batch]) -> None:
    """Raise an error for the accuracy of scores: none is exactly right."""
    is_accuracy = getattr(score, "measure", "loss") == "accuracy"
    if is_accuracy and any(batch["labels"].is_floating_point() for batch in batches):
        hint = "write measure=loss (--option measure=loss)"
        raise DeadheadError("measure=accuracy needs labels that are classes, got scores.", hint)


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
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with (
        torch.random.fork_rng(),
        torch.inference_mode(False),
        torch.enable_grad(),
        computing(model),
        evaluating(model),
    ):
        torch.manual_seed(seed)
        try:
            for parameter, _ in flags:
                parameter.requires_grad_(False)
            yield
        finally:
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
