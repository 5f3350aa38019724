"""Losses without labels: a function of the user's, or the distance to the model's own output.

`loss="self"` asks how much of the whole model's output is lost without a head. That output is the
logits, and the distance their KL divergence. A classifier of several labels at once says yes or no
to each: the distance is the sum of the divergences of its labels. Of the numbers of a regressor it
is the squared difference. A model of question answering predicts the first and the last token of
an answer: the distance is the sum of both divergences, each over the real tokens of a text. Where
there are no logits (embedding models), the output is the last hidden states of the tokens, and the
distance their squared difference as a share of their squared length.

A sentence encoder has a loss of its own, `loss="embedding"`: embedding_loss.py.

Ablation, Shapley values and L0 gates close heads and measure that distance as it is. Gradients
cannot: with every gate open the distance is 0 and lowest, so its gradient is 0 at every head. What
is not 0 is its curvature, the squared size of d output / d gate, and gradients measure that through
a `probe`: the output times random directions v. The gradient of v * output is v * (d output / d
gate), whose mean square over v is that curvature: v is normal for hidden states and for numbers,
and for other logits it comes from labels drawn from the model's own prediction (Fisher
information). So the score is how far the output moves, to first order, as the gate closes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.embedding import embedder_of
from deadhead.errors import DataError, DeadheadError, UnsupportedModel, unknown_name
from deadhead.layout import Batch

from .loss import (
    LOSS,
    SEEDS,
    TARGET,
    examples_of,
    forward,
    has_spans,
    named_outputs,
    on_device,
    output_of,
    positions_of,
)
from .probes import generators, normal

DRAWS = 4  # probes of every example
NAMES = ("self", "embedding")  # losses that need no labels


@runtime_checkable
class LabelFree(Protocol):
    """A loss without labels: the distance from what the whole model gives."""

    name: str

    def target(self, model: nn.Module, batch: Batch) -> Tensor: ...

    def distance(self, outputs: Any, batch: Batch) -> Tensor: ...

    def probe(self, outputs: Any, batch: Batch) -> Tensor: ...


PerExampleLoss = Callable[[Any, Batch], Tensor]  # (outputs, batch) -> a number for each example
Loss = PerExampleLoss | LabelFree


class OwnOutput:
    """`loss="self"`: the distance of logits or hidden states."""

    name = "self"

    def __init__(self, model: nn.Module):
        self.problem = problem_of(model)

    def target(self, model: nn.Module, batch: Batch) -> Tensor:
        return output_to_compare(model, on_device(batch, model))

    def distance(self, outputs: Any, batch: Batch) -> Tensor:
        return distance(outputs, batch, self.problem)

    def probe(self, outputs: Any, batch: Batch) -> Tensor:
        return probe(outputs, batch, self.problem)


def with_default_loss(
    model: nn.Module, batches: Iterable[Batch], loss: Loss | str | None
) -> tuple[Iterable[Batch], Loss | str | None]:
    """The batches, and the loss: that of embeddings for a sentence encoder without labels."""
    if loss is None and not isinstance(batches, Mapping) and embedder_of(model) is not None:
        batches = [*batches]
        loss = None if any("labels" in batch for batch in batches) else "embedding"
    return batches, loss


def check_loss(loss: object) -> None:
    """Raise an error unless this is the name of a loss, or a loss."""
    if isinstance(loss, str) and loss not in NAMES:
        raise unknown_name("loss", loss, NAMES)
    if not isinstance(loss, str | LabelFree) and not callable(loss):
        known = " or ".join(f'"{name}"' for name in NAMES)
        hint = f"give {known}, or a function of (outputs, batch)"
        raise DeadheadError(f"`loss` expects {known} or a function, got {loss!r}.", hint)


def label_free(model: nn.Module, name: str) -> LabelFree:
    """The loss of this name for a model."""
    if name == "self":
        return OwnOutput(model)
    from .embedding_loss import EmbeddingLoss

    return EmbeddingLoss(model)


def with_loss(
    model: nn.Module,
    batches: Sequence[Batch],
    loss: Loss | str,
    probed: bool,
    seed: int,
    *,
    probes: int | None = None,
) -> list[Batch]:
    """The batches, each with the loss it is measured by. Call it before heads are closed.

    probed: measure the output along random directions, for methods that need a gradient.
    probes: of all examples together; where they are many, fewer than DRAWS of each are enough.
    """
    if callable(loss):
        measured: list[Batch] = [{**batch, LOSS: PerExample(loss, "loss")} for batch in batches]
        with torch.no_grad():  # a mistake in it should cost no time
            first: dict[str, Any] = dict(on_device(measured[0], model))
            first[LOSS](forward(model, first), first)
        return measured
    compared = label_free(model, loss) if isinstance(loss, str) else loss
    if probed:
        compared.target(model, batches[0])  # or raise an error
        draws = DRAWS
        if probes is not None:
            draws = min(DRAWS, max(1, round(probes / sum(map(examples_of, batches)))))
        return list(_probed(batches, seed, draws, compared.probe))
    return [
        {**batch, LOSS: compared.distance, TARGET: compared.target(model, batch).cpu()}
        for batch in batches
    ]


@torch.no_grad()
def output_to_compare(model: nn.Module, batch: Batch) -> Tensor:
    """What `distance` compares with; raises an error for a model that has no such output."""
    outputs = forward(model, batch)
    output = output_of(outputs)
    if output is None:
        named = [name for name, value in named_outputs(outputs).items() if value is not None]
        raise UnsupportedModel(
            f"{type(model).__name__} returns {', '.join(named) or type(outputs).__name__}; "
            'loss="self" (--loss self) compares logits, start_logits with end_logits and no '
            "others, or last_hidden_state.",
            "rank the layers below its output: deadhead rank MODEL --auto-class AutoModel "
            "--loss self --text FILE --out FILE; or in Python, give a loss of your own: "
            "loss=function of (outputs, batch)",
        )
    return output.detach()


def _probed(
    batches: Sequence[Batch], seed: int, draws: int, loss: PerExampleLoss
) -> Iterable[Batch]:
    """Every batch `draws` times, every example with the seed of its own directions."""
    first = Random(f"{seed}").getrandbits(31)  # torch draws by the last 32 bits of a seed alone
    for batch in batches:
        # by example, not by batch: so the directions do not depend on how examples are batched
        seeds = first + DRAWS * torch.arange(examples_of(batch))
        for draw in range(draws):
            yield {**batch, LOSS: loss, SEEDS: seeds + draw}
        first += DRAWS * examples_of(batch)


class PerExample:
    """Check that a user's function returns a number per example; messages call it `kind`."""

    def __init__(self, function: PerExampleLoss, kind: str):
        self.function, self.kind = function, kind

    def __call__(self, outputs: Any, batch: Batch) -> Tensor:
        values = self.function(outputs, batch)
        examples, is_tensor = examples_of(batch), isinstance(values, Tensor)
        if not is_tensor or values.shape != (examples,) or not values.is_floating_point():
            got = type(values).__name__
            if is_tensor:
                got = f"a tensor of shape {tuple(values.shape)}, {values.dtype}"
            raise DataError(
                f"the {self.kind} function gave {got} for a batch of {examples} examples.",
                f"return one number per example, a float tensor of shape ({examples},)",
            )
        return values


def problem_of(model: nn.Module) -> str | None:
    """What a classifier predicts, in the words of transformers; None where its config says none."""
    problem: str | None = getattr(getattr(model, "config", None), "problem_type", None)
    return problem


def kind_of_logits(logits: Tensor, problem: str | None) -> str:
    """What logits are for: a `class`, `labels` each of which may hold, or `numbers`.

    problem: as of `problem_of`; it is about models with one answer for each example.
    """
    of_text = logits.dim() == 2
    if of_text and problem == "multi_label_classification":
        return "labels"
    if logits.shape[-1] == 1 or (of_text and problem == "regression"):
        return "numbers"  # a single one is no distribution
    return "class"


def logit_distance(output: Tensor, target: Tensor, kind: str) -> Tensor:
    """How far logits are from those of the whole model. kind: as of `kind_of_logits`"""
    if kind == "labels":
        return (_yes_divergence(output, target) + _yes_divergence(-output, -target)).sum(-1)
    if kind == "numbers":
        return (output - target).square().sum(-1)
    logs = output.log_softmax(-1), target.log_softmax(-1)
    return F.kl_div(*logs, reduction="none", log_target=True).sum(-1)


def distance(outputs: Any, batch: Batch, problem: str | None = None) -> Tensor:
    """How far each example is from the output of the whole model. problem: as of `problem_of`"""
    output, target = _precise(output_of(outputs)), _precise(batch[TARGET])
    real = positions_of(outputs, batch)
    if real is not None and has_spans(outputs):
        logs = _log_chances(output, real), _log_chances(target, real)
        return F.kl_div(*logs, reduction="none", log_target=True).sum((1, 2))
    if hasattr(outputs, "logits"):
        values = logit_distance(output, target, kind_of_logits(output, problem))
    else:
        values = (output - target).square().sum(-1) / target.square().sum(-1).clamp(min=1e-12)
    return values if real is None else (values * real).sum(1) / real.sum(1).clamp(min=1)


def probe(outputs: Any, batch: Batch, problem: str | None = None) -> Tensor:
    """The output of each example along random directions. problem: as of `problem_of`

    It is scaled so that its squared gradient is the curvature of the distance.
    """
    output, real = _precise(output_of(outputs)), positions_of(outputs, batch)
    draws = generators(batch[SEEDS])
    if real is not None and has_spans(outputs):
        logs = _log_chances(output, real).transpose(1, 2)
        drawn = _drawn(logs.detach().exp(), draws, _sites)
        return -logs.gather(-1, drawn[..., None]).sum((1, 2))
    if not hasattr(outputs, "logits"):
        directions = normal(output, draws)
        if real is not None:
            directions = directions * real[..., None]
        size = (output.detach() * (1 if real is None else real[..., None])).flatten(1).norm(dim=1)
        return (directions * output).flatten(1).sum(1) / size.clamp(min=1e-12)
    kind = kind_of_logits(output, problem)
    if kind == "labels":
        drawn = _drawn(output.detach().sigmoid(), draws, torch.bernoulli)
        values = F.binary_cross_entropy_with_logits(output, drawn, reduction="none").sum(-1)
    elif kind == "numbers":
        values = (normal(output, draws) * output).sum(-1)
    else:
        drawn = _drawn(output.detach().softmax(-1), draws, _labels)
        values = -output.log_softmax(-1).gather(-1, drawn[..., None])[..., 0]
    return values if real is None else (values * real).sum(1) / real.sum(1).clamp(min=1).sqrt()


def _yes_divergence(output: Tensor, target: Tensor) -> Tensor:
    """The part of the divergence of a label that the answer yes adds."""
    whole = F.logsigmoid(target)
    return whole.exp() * (whole - F.logsigmoid(output))


def _log_chances(logits: Tensor, real: Tensor) -> Tensor:
    """The logarithms of how likely each token is the start, and the end; padding is neither."""
    least = torch.finfo(logits.dtype).min  # two infinities would have no difference
    return logits.masked_fill(real[..., None] == 0, least).log_softmax(1)


def _drawn(
    chances: Tensor, draws: Sequence[torch.Generator], draw_one: Callable[..., Tensor]
) -> Tensor:
    """What is drawn from the chances of each example, each with its own generator."""
    pairs = zip(chances.cpu(), draws, strict=True)
    return torch.stack([draw_one(row, generator=draw) for row, draw in pairs]).to(chances.device)


def _labels(chances: Tensor, generator: torch.Generator) -> Tensor:
    """A class drawn at each position of one example."""
    rows = chances.reshape(-1, chances.shape[-1])
    return torch.multinomial(rows, 1, generator=generator).reshape(chances.shape[:-1])


def _sites(chances: Tensor, generator: torch.Generator) -> Tensor:
    """A start and an end drawn from the tokens of one example, whatever padding is behind them."""
    sums = chances.double().cumsum(-1)
    points = torch.rand(len(sums), 1, generator=generator, dtype=torch.float64) * sums[:, -1:]
    drawn = torch.searchsorted(sums, points, right=True)[:, 0]
    # nan has no site: the check of the loss reports it
    return drawn.clamp(max=sums.shape[-1] - 1)


def _precise(output: Any) -> Tensor:
    precise: Tensor = output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    return precise
