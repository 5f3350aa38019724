"""Train several BERTs on one task at once: their weights are stacked, so one kernel serves all.

A small model leaves most of a GPU idle, and processes beside each other hardly overlap there. Here
every product of an update is one batched product over all models. They see the same batches, and
each draws its own dropout. A pruned model is padded with zeros to the size of the whole one: a head
or neuron of zeros gives nothing and gets no gradient, so it stays zero, and the others learn as if
it was not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.errors import DeadheadError
from deadhead.forward import IGNORED, device_of
from deadhead.heads.discover import find_every_site
from deadhead.tasks import Encoded
from deadhead.tasks.encoding.feed import Shape
from deadhead.training import Settings
from deadhead.training.history import History
from deadhead.training.run import Run
from deadhead.training.update import Updater, additive, ready

LAYER = "bert.encoder.layer.{}."
# by kind of units: the parameters whose first axis is the units, and the one whose second axis is
ROWS = {
    "heads": ("attention.self.query.", "attention.self.key.", "attention.self.value."),
    "neurons": ("intermediate.dense.",),
}
COLUMNS = {"heads": "attention.output.dense.weight", "neurons": "output.dense.weight"}


def train_together(
    models: Sequence[nn.Module], whole: nn.Module, data: Encoded, settings: Settings
) -> None:
    """Train each model in place, as `finetune` trains one. whole: before anything was removed."""
    stack, device = Stack(models, whole), device_of(models[0])
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        run = _Run(
            model=stack,
            train=data,
            history=History(settings=settings, notes=[]),
            device=device,
            score=None,
            folder=None,
            keep_first=False,
        )
        history = run(False, device.type == "cuda", "")
    if history.state != "done":
        raise DeadheadError(f"the training failed: {history.reason}.", "use a smaller rate")
    stack.put_into(models)


class Stack(nn.Module):
    """BERTs of one size, with a task layer: each parameter has the models as its first axis."""

    def __init__(self, models: Sequence[nn.Module], whole: nn.Module):
        super().__init__()
        self.config: Any = whole.config
        if self.config.model_type != "bert" or self.config.hidden_act != "gelu":
            raise DeadheadError("only BERTs are trained together.", "train others with finetune")
        shapes = {name: p.shape for name, p in whole.named_parameters()}
        tables = [padded(model, shapes) for model in models]
        self.models = len(models)
        for name in shapes:
            stacked = torch.stack([table[name] for table in tables])
            self.register_parameter(name.replace(".", "/"), nn.Parameter(stacked))

    def weight(self, name: str) -> Tensor:
        return self.get_parameter(name.replace(".", "/"))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The logits: models x examples, or models x examples x tokens, x labels."""
        ids, mask = batch["input_ids"], batch["attention_mask"]
        size = (self.models, *ids.shape)
        hidden = self._embed(ids, batch.get("token_type_ids"))
        if mask.dim() == 2:
            mask = additive(mask, hidden.dtype)
        mask = mask.expand(self.models, *mask.shape).flatten(0, 1)
        for layer in range(self.config.num_hidden_layers):
            hidden = self._layer(LAYER.format(layer), hidden, mask, size)
        if "bert/pooler/dense/weight" in dict(self.named_parameters(recurse=False)):
            hidden = torch.tanh(self._linear("bert.pooler.dense", hidden.view(*size, -1)[:, :, 0]))
            size = size[:2]
        share = self.config.classifier_dropout
        share = self.config.hidden_dropout_prob if share is None else share
        return self._linear("classifier", F.dropout(hidden, share, self.training)).view(*size, -1)

    def _embed(self, ids: Tensor, types: Tensor | None) -> Tensor:
        name = "bert.embeddings.{}_embeddings.weight"
        hidden = self._rows(name.format("word"), ids)
        types = torch.zeros_like(ids) if types is None else types
        hidden = hidden + self._rows(name.format("token_type"), types)
        hidden = hidden + self.weight(name.format("position"))[:, None, : ids.shape[1]]
        return self._dropout(self._norm("bert.embeddings.LayerNorm", hidden.flatten(1, 2)))

    def _rows(self, name: str, numbers: Tensor) -> Tensor:
        """The rows of these numbers of each model's table."""
        tables = self.weight(name)
        first = torch.arange(self.models, device=numbers.device) * tables.shape[1]
        return F.embedding(numbers + first.view(-1, *[1] * numbers.dim()), tables.flatten(0, 1))

    def _layer(self, name: str, hidden: Tensor, mask: Tensor, size: Sequence[int]) -> Tensor:
        models, examples, tokens = size
        heads = (models * examples, tokens, self.config.num_attention_heads, -1)
        q, k, v = (self._linear(f"{name}{part[:-1]}", hidden) for part in ROWS["heads"])
        q, k, v = (value.reshape(heads).transpose(1, 2) for value in (q, k, v))
        share = self.config.attention_probs_dropout_prob if self.training else 0.0
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=share)
        context = context.transpose(1, 2).reshape(hidden.shape)
        read = self._dropout(self._linear(f"{name}attention.output.dense", context))
        hidden = self._norm(f"{name}attention.output.LayerNorm", hidden + read)
        neurons = F.gelu(self._linear(f"{name}intermediate.dense", hidden))
        read = self._dropout(self._linear(f"{name}output.dense", neurons))
        return self._norm(f"{name}output.LayerNorm", hidden + read)

    def _linear(self, name: str, inputs: Tensor) -> Tensor:
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return torch.baddbmm(bias[:, None], inputs, weight.transpose(1, 2))

    def _norm(self, name: str, inputs: Tensor) -> Tensor:
        normed = F.layer_norm(inputs, inputs.shape[-1:], eps=self.config.layer_norm_eps)
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return torch.addcmul(bias[:, None], normed, weight[:, None])

    def _dropout(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.config.hidden_dropout_prob, self.training)

    @torch.no_grad()
    def put_into(self, models: Sequence[nn.Module]) -> None:
        """Give each model its weights, without what was padded."""
        for number, model in enumerate(models):
            axes = units_of(model)
            for name, p in model.named_parameters():
                own = self.weight(name)[number]
                if name in axes:
                    axis, numbers = axes[name]
                    own = own.index_select(axis, numbers.to(own.device))
                p.copy_(own)


def units_of(model: nn.Module) -> dict[str, tuple[int, Tensor]]:
    """By parameter that lost something, the axis of its units and the numbers that are left."""
    axes: dict[str, tuple[int, Tensor]] = {}
    for site in find_every_site(model, "heads", "neurons"):
        if len(site.kept) == site.size:
            continue
        first = torch.tensor(site.kept, dtype=torch.long) * site.width
        numbers = (first[:, None] + torch.arange(site.width)).flatten()
        layer = LAYER.format(site.layer)
        for part in ROWS[site.kind]:
            axes |= {f"{layer}{part}{name}": (0, numbers) for name in ("weight", "bias")}
        axes[layer + COLUMNS[site.kind]] = (1, numbers)
    return axes


def padded(model: nn.Module, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The parameters of a model, with zeros for what was removed."""
    axes, table = units_of(model), {}
    for name, p in model.named_parameters():
        full = p.detach()
        if name in axes:
            axis, numbers = axes[name]
            full = full.new_zeros(shapes[name]).index_copy(axis, numbers.to(full.device), full)
        table[name] = full
    return table


class _Run(Run):
    def _new_updater(self) -> Updater:
        return _Updater(self.model, self.feed, self.settings)

    def _finish(self) -> None:  # nobody reads the weights that a history keeps
        pass


class _Updater(Updater):
    """One update of all models: each has a loss of its own, and a norm that is clipped."""

    def backward(self, numbers: Tensor, shapes: Sequence[Shape]) -> Tensor:
        """Gradients of each model's loss; returns their mean."""
        return super().backward(numbers, shapes) / self.model.models

    def loss_sum(self, batch: Mapping[str, Tensor]) -> Tensor:
        logits = self.model(ready(self.model, batch)).float()
        targets = batch["labels"].expand(len(logits), *batch["labels"].shape)
        options: Any = {"ignore_index": IGNORED, "label_smoothing": self.settings.smoothing}
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum", **options)

    @torch.no_grad()
    def apply(self, loss: Tensor, rate: float | Tensor) -> None:
        gradients: list[Any] = [p.grad for p in self.params]  # every parameter is used
        if self.half:
            torch._foreach_copy_(self.gradients, gradients)
            gradients = self.gradients
        # by model, so that one kernel reads many gradients
        by_model = [*zip(*(gradient.unbind() for gradient in gradients), strict=True)]
        norms = torch.stack([torch.stack(torch._foreach_norm(own)).norm() for own in by_model])
        if self.settings.clip is not None:
            factors = 1 / (norms / self.settings.clip).clamp(min=1.0)
            for own, factor in zip(by_model, factors, strict=True):
                torch._foreach_mul_(own, factor)
        finite = torch.isfinite(loss) & torch.isfinite(norms).all()
        self._adamw(dict(enumerate(gradients)), rate, None, (~finite).float())
        if self.half:
            torch._foreach_copy_(self.params, self.masters)
        self.forget()
        loss.masked_fill_(~finite, torch.nan)
