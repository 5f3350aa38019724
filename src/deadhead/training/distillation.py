"""Train a model to give the outputs of another, its teacher: no labels are needed."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, DeadheadError
from deadhead.forward import forward, on_device
from deadhead.heads.means import evaluating
from deadhead.numerics import computing
from deadhead.rankers.batches import check_batches
from deadhead.rankers.label_free import distance, output_to_compare, problem_of
from deadhead.rankers.loss import TARGET, examples_of

from .settings import Settings
from .update import set_precision


def distill(
    model: nn.Module,
    teacher: nn.Module,
    batches: Iterable[Mapping[str, Tensor]],
    settings: Settings | None = None,
    *,
    progress: bool | Progress = True,
) -> list[float]:
    """Train the model in place on the outputs of the teacher; the mean loss of each epoch.

    The loss is the KL divergence of the model's logits from the teacher's, over all tokens that
    are no padding; for models without logits, the distance of their hidden states; for models of
    question answering, the divergence of starts plus that of ends. Both models must read the same
    batches.

    Args:
        batches: dicts ready for `model(**batch)`. Labels are not read, except by a decoder beside
            an encoder.
        settings: its rate, schedule, epochs, decay, clip and seed; by default one epoch.

    >>> whole = copy.deepcopy(model)
    >>> shrink(model, batches, heads=0.5)
    >>> distill(model, whole, batches)
    """
    settings = Settings(epochs=1) if settings is None else settings
    listed = check_batches(model, batches, labels=False)
    parameters = [p for p in model.parameters() if p.requires_grad and p.numel()]
    if not parameters:
        raise DeadheadError("all weights are frozen.", "give at least one requires_grad=True")
    set_precision(model, torch.float32)
    updates = settings.epochs * len(listed)
    rates = settings.rates(updates)
    optimizer = torch.optim.AdamW(
        parameters, betas=settings.betas, eps=settings.epsilon, weight_decay=settings.decay
    )
    generator, losses, done = torch.Generator().manual_seed(settings.seed), [], 0
    with (
        evaluating(teacher),
        evaluating(model),
        computing(model),
        torch.random.fork_rng(),
        reported(progress, "distill") as count,
    ):
        model.train()
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            total = torch.zeros((), device=parameters[0].device)
            for number in torch.randperm(len(listed), generator=generator).tolist():
                count(done, updates, f"epoch {epoch + 1}/{settings.epochs}")
                for group in optimizer.param_groups:
                    group["lr"] = float(rates[done])
                total += _update(model, teacher, listed[number], optimizer, settings.clip)
                done += 1
            losses.append(float(total) / sum(map(examples_of, listed)))
        count(done, updates)
    if not all(torch.tensor(losses).isfinite()):
        raise DataError("the loss of the distillation is not a finite number.", "lower the rate")
    return losses


def _update(
    model: nn.Module,
    teacher: nn.Module,
    batch: Mapping[str, Any],
    optimizer: torch.optim.Optimizer,
    clip: float | None,
) -> Tensor:
    """One update on a batch; the sum of the losses of its examples."""
    batch = on_device(batch, model)
    target = output_to_compare(teacher, batch)
    losses = distance(forward(model, batch), {**batch, TARGET: target}, problem_of(teacher))
    losses.mean().backward()
    if clip is not None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return losses.detach().sum()
