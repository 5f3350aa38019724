"""Fine-tune a model: `finetune`, for classifiers, taggers and translation models.

    history = finetune(model, train, preset("contributions"), dev=dev, folder="out/trial-7")

Prune heads before training, and the smaller model trains faster; `masked` closes their gates
instead and gives the same losses (except for dropout in the attention, which draws other numbers
when there are fewer heads).
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import DeadheadError
from deadhead.forward import device_of
from deadhead.heads import discover, gated
from deadhead.heads.layers import checkpointed
from deadhead.layout import Head
from deadhead.numerics import computes_half, computing, device_named
from deadhead.tasks import Encoded

from .check import check
from .checkpoint import Folder, identity
from .evaluation import Dev, Score, dev_sets, scorer
from .history import Epoch, History
from .progress import Show
from .run import Run
from .settings import Settings, SettingsError
from .update import set_precision


def finetune(
    model: Any,
    train: Encoded,
    settings: Settings | None = None,
    *,
    score: Score | None = None,
    dev: Dev | None = None,
    folder: str | Path | None = None,
    keep_first: bool = False,
    masked: Iterable[Head | str] = (),
    device: str | torch.device | None = None,
    each: Callable[[Epoch], None] | None = None,
    checkpointing: bool = False,
    progress: Show = True,
    graphs: bool = True,
    name: str = "",
) -> History:
    """Train the model in place. It ends with the weights of the last epoch, or their `average`.

    `history.restore(model)` puts back the best weights.

    Args:
        score: called with the model after every epoch; returns a number, or numbers by name, of
            which the first decides.
        dev: without `score`, compute the metrics of the task on this data (for translation, the
            log-likelihood). With several sets by name, their mean decides.
        folder: keep the weights and the state there; an interrupted training resumes when called
            again.
        keep_first: also keep the weights after the first epoch.
        masked: heads whose gates stay closed during training.
        device: where to train; by default where the model is.
        each: called with the record of every epoch after it is kept.
        checkpointing: compute the activations of layers again in the backward pass instead of
            keeping them: less memory, more time, the same numbers. Leaves graphs out.
        progress: show a live line in a terminal, or a function that is called after every update.
        graphs: on a CUDA device, capture updates as CUDA graphs.
        name: of the trial, in front of the progress line.
    """
    # it is long by its parameters and what they mean; each line below hands some of them on
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        message = f"`settings` expects Settings, got a {type(settings).__name__}."
        raise SettingsError(message, "give Settings(...) or preset(...)")
    sets = dev_sets(dev)
    notes = check(model, train, settings, sets)
    score_epoch = scorer(score, sets)
    if settings.patience is not None and score_epoch is None:
        message = f"patience is {settings.patience}, but nothing is scored."
        raise SettingsError(message, "give finetune dev=encoded or score=function")
    closed = discover(model).check(masked) if masked else ()
    place: torch.device = device_of(model) if device is None else device_named(str(device))
    model.to(place)
    history = History(settings=settings, notes=notes)
    if any(p.dtype in (torch.bfloat16, torch.float16) for p in model.parameters()):
        set_precision(model, torch.float32)
        history.note("the weights had half precision: they are trained in float32")
    half = settings.precision == "bf16" and place.type == "cpu"
    cuda = [place] if place.type == "cuda" else []
    kept = checkpointed(model) if checkpointing else nullcontext()
    with torch.random.fork_rng(cuda), _closed(model, closed, place), computing(model, half), kept:
        if half and not computes_half():
            history.note("oneDNN has no kernels for bfloat16 on this CPU: trained without oneDNN")
        run = Run(
            model=model,
            train=train,
            history=history,
            device=place,
            score=score_epoch,
            folder=None if folder is None else _folder(folder, model, train, settings, closed),
            keep_first=keep_first,
            each=each,
        )
        return run(progress, graphs and place.type == "cuda" and not checkpointing, name)


def _folder(
    path: str | Path, model: Any, train: Encoded, settings: Settings, closed: Iterable[Head]
) -> Folder:
    """The folder of this training, with all that identifies it."""
    try:
        # two models pruned differently may have weights of the same shapes
        heads = [str(head) for head in discover(model)]
    except DeadheadError:  # a model of an unknown kind can be trained too
        heads = []
    shapes = [(name, list(p.shape)) for name, p in model.named_parameters()]
    masked = [str(head) for head in closed]
    return Folder(path, identity(settings.to_dict(), train.fingerprint, masked, shapes, heads))


def _closed(
    model: Any, heads: tuple[Head, ...], device: torch.device
) -> AbstractContextManager[object]:
    """Close the gates of these heads. The gates are on the device, so that nothing is copied."""
    layers = {(head.block, head.layer) for head in heads}
    gates = {
        head: torch.tensor(0.0 if head in heads else 1.0, device=device)
        for head in (discover(model) if heads else ())
        if (head.block, head.layer) in layers
    }
    return gated(model, gates) if heads else nullcontext()
