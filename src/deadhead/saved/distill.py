"""Train a saved model on the outputs of another, and save it into another folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead.display.progress import stage
from deadhead.errors import DataError
from deadhead.tasks import Dataset
from deadhead.training.models import fitting_tokenizer, load_with_tokenizer
from deadhead.training.settings import Settings

from .rank_data import Texts, check_model, rank_batches

# settings that a distillation uses
USED = (
    "batch",
    "rate",
    "epochs",
    "warmup",
    "schedule",
    "decay",
    "clip",
    "betas",
    "epsilon",
    "seed",
)


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """A finished distillation."""

    losses: list[float]  # the mean of each epoch
    dtype: str  # the saved weights' precision
    facts: dict[str, Any]  # about the data


def distill_saved(
    name: str,
    teacher: str,
    data: Dataset | Texts,
    settings: Settings,
    out: Path,
    *,
    auto: str | None = None,
    dtype: Any = None,
    device: Any = None,
    max_length: int | None = None,
) -> Distilled:
    """Train a model to give the outputs of its teacher on these data, and save it to `out`.

    Labels are not read, except by a decoder beside an encoder. The weights are trained in float32
    and written in `dtype`, by default the precision of the source.
    """
    import torch

    from deadhead.heads import save
    from deadhead.heads.load import skeleton
    from deadhead.heads.model_files import stored_dtype
    from deadhead.training import distill
    from deadhead.training.update import set_precision

    models = [skeleton(each, auto=auto) for each in (name, teacher)]
    _check_pair(models, (name, teacher))
    check_model(models[0], data, needs_labels=False, loss="self", max_length=max_length)
    model, tokenizer = load_with_tokenizer(name, device, auto=auto, dtype="float32")
    other, _ = load_with_tokenizer(teacher, device, auto=auto, dtype=None)
    batches, facts = rank_batches(
        model,
        tokenizer,
        data,
        needs_labels=False,
        loss="self",
        size=settings.batch,
        max_length=max_length,
        in_file_order=False,
    )
    stage(f"training on the outputs of {teacher}")
    losses = distill(model, other, [*batches], settings)
    set_precision(model, dtype or stored_dtype(name) or torch.float32)
    examples = f"{facts['examples']:,} examples, {settings.epochs} epochs"
    save(
        model,
        out,
        tokenizer,
        note=f"Trained with deadhead on the outputs of {teacher}: {examples}.",
    )
    written = str(model.dtype).removeprefix("torch.")
    return Distilled(losses=losses, dtype=written, facts=facts)


def _check_pair(models: list[Any], names: tuple[str, str]) -> None:
    """Raise an error unless a model can learn the outputs of the other: same words, same labels."""
    hint = "name the model that MODEL was made from as --teacher"
    own, other = (
        fitting_tokenizer(model, name).get_vocab()
        for model, name in zip(models, names, strict=True)
    )
    if own != other:
        message = f"{names[0]} and its teacher {names[1]} cut texts into different tokens."
        raise DataError(message, hint)
    classes = [type(model).__name__ for model in models]
    if classes[0] != classes[1]:
        raise DataError(f"{names[0]} is a {classes[0]}, and its teacher a {classes[1]}.", hint)
    own, other = (getattr(model.config, "id2label", None) for model in models)
    if own != other:
        raise DataError(f"{names[0]} and its teacher {names[1]} have different labels.", hint)
