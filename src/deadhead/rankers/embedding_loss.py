"""The loss of sentence encoders: 1 - the cosine of each embedding with that of the whole model.

Similarities of texts are cosines of embeddings, so this is what can change them. It is half the
squared distance of embeddings that are scaled to length 1. Measured beside it: to weigh the
distance by what it changes in the similarities to other texts gives the same models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deadhead.embedding import embedder_of
from deadhead.errors import DataError
from deadhead.layout import Batch

from .loss import SEEDS, TARGET, attended, forward, on_device
from .probes import generators, normal

MOST = 1000  # texts whose similarities to each other are compared
EQUAL = 1e-6  # a standard deviation of similarities that is only rounding


@dataclass(frozen=True, kw_only=True)
class EmbeddingChange:
    """What became of the embeddings of texts that nothing was fitted to.

    mean, low, lowest: of the cosines with the whole model; 5 % of the texts are below `low`.
    similarity: how the similarities of pairs of texts correlate with those in the whole model; None
        for a single pair, and where all similarities of a model are equal.
    worst: the tokens of the text with the lowest cosine.
    """

    mean: float
    low: float
    lowest: float
    similarity: float | None
    worst: tuple[int, ...]

    def __str__(self) -> str:
        return self.describe()

    def describe(self, worst: str = "") -> str:
        """The numbers in words. worst: the text with the lowest cosine, in quotes."""
        text = f"cosines {self.mean:.3f} on average, 5 % below {self.low:.3f}, "
        text += f"lowest {self.lowest:.3f}"
        if worst:
            text += f": {worst}"
        if self.similarity is None:
            return f"{text}; similarities: no correlation of a single pair or of equal ones"
        return f"{text}; similarities correlate by {self.similarity:.3f}"


def no_encoder() -> DataError:
    """The error for a model that is no sentence encoder."""
    message = 'loss="embedding" (--loss embedding) expects a sentence encoder: a folder '
    message += "of sentence-transformers that pools (modules.json lists a Pooling)."
    return DataError(message, "use self for other models, such as classifiers and cross-encoders")


class EmbeddingLoss:
    """How far the embeddings of texts are from those of the whole model."""

    name = "embedding"

    def __init__(self, model: nn.Module):
        embedder = embedder_of(model)
        if embedder is None:
            raise no_encoder()
        self.embedder = embedder

    @torch.no_grad()
    def target(self, model: nn.Module, batch: Batch) -> Tensor:
        """The embeddings of the model as it is, to compare with."""
        if "input_ids" not in batch:
            raise DataError("embeddings are those of texts.", "give each batch input_ids")
        batch = on_device(batch, model)
        return self._unit(forward(model, batch), batch)

    def distance(self, outputs: Any, batch: Batch) -> Tensor:
        return (self._unit(outputs, batch) - batch[TARGET]).square().sum(-1) / 2

    def probe(self, outputs: Any, batch: Batch) -> Tensor:
        """Embeddings along random directions: the mean squared gradient is the curvature."""
        units = self._unit(outputs, batch)
        return (normal(units, generators(batch[SEEDS])) * units).sum(-1)

    def change(self, model: nn.Module, batches: Sequence[Batch]) -> EmbeddingChange:
        """Compare the embeddings of a model with the targets of these batches."""
        whole = torch.cat([batch[TARGET] for batch in batches]).float()
        small = torch.cat([self.target(model, batch).float().cpu() for batch in batches])
        cosines = (whole * small).sum(1)
        count = min(len(whole), MOST)
        upper = tuple(torch.triu_indices(count, count, 1))
        pairs = torch.stack([(rows[:MOST] @ rows[:MOST].T)[upper] for rows in (whole, small)])
        texts = [
            ids[real.bool()]
            for batch in batches
            for ids, real in zip(batch["input_ids"], attended(batch), strict=True)
        ]
        return EmbeddingChange(
            mean=float(cosines.mean()),
            low=float(cosines.quantile(0.05)),
            lowest=float(cosines.min()),
            similarity=_correlation(pairs),
            worst=tuple(texts[int(cosines.argmin())].tolist()),
        )

    def _unit(self, outputs: Any, batch: Batch) -> Tensor:
        return F.normalize(self.embedder(outputs, batch), dim=-1)


def _correlation(pairs: Tensor) -> float | None:
    """The correlation of two rows; None where it is undefined."""
    if pairs.shape[1] < 2 or float(pairs.std(1).min()) < EQUAL:
        return None
    return float(pairs.corrcoef()[0, 1])
