"""Sentence embeddings by language: are languages separate clusters, and how far apart?

A sentence is the last layer's vector of its first token. All languages are drawn in one t-SNE;
since distances in such a map mean little, the silhouette of the languages and the distances between
their centres are computed in the space of the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from deadhead.errors import DataError, UnsupportedModel, optional
from deadhead.forward import device_of
from deadhead.registry.options import whole_from

from .measure import Measure, MeasureInputs, Split, Stages, trials_in_words

if TYPE_CHECKING:
    import numpy as np

PLACES = 2  # to which points of the map are rounded
LENGTH = 128  # sub-words of a sentence at most
AT_ONCE = 64  # sentences in a forward pass
PERPLEXITY = 30.0  # t-SNE's


@dataclass(frozen=True)
class Embeddings(Measure):
    """The sentences of all languages as points, their silhouette, the distances of languages."""

    label = "Sentences by language"
    help = (
        "t-SNE of sentence embeddings; distances between far points mean little, the silhouette is "
        "of the space itself."
    )
    legend = "language"
    reads = "target texts"
    drawn_as = "points"

    # for each language; the same sentences where the data is parallel
    sentences: Annotated[int, whole_from(2)] = 1000
    split: Split = "dev"

    def __call__(self, model: Any, inputs: MeasureInputs) -> dict[str, Any]:
        texts = inputs.texts(self.split, self.sentences)
        embedded = {
            lang: vectors(model, inputs.tokenizer, sentences) for lang, sentences in texts.items()
        }
        return described(embedded)

    @classmethod
    def finding(cls, trials: Sequence[Stages]) -> str | None:
        sides = [
            [(stages.get(stage) or {}).get("silhouette") for stage in ("before", "after")]
            for stages in trials
        ]
        complete = [side for side in sides if all(isinstance(s, int | float) for s in side)]
        if not complete:
            return None
        before, after = (fmean(float(side[i] or 0) for side in complete) for i in (0, 1))
        return (
            f"Sentences of different languages are {'mixed' if after < 0.25 else 'apart'} after "
            f"training: the silhouette of languages goes from {before:.2f} to {after:.2f} "
            f"(0: mixed, 1: apart; {trials_in_words(len(complete))})."
        )


def vectors(model: Any, tokenizer: Any, texts: Sequence[str]) -> np.ndarray:
    """The last layer's vector of the first token of each text, sentences x width."""
    import numpy as np
    import torch

    from deadhead.heads.means import evaluating
    from deadhead.numerics import computing

    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            f"{type(model).__name__} has no first token that represents a sentence.",
            "measure embeddings of an encoder",
        )
    if not texts:
        raise DataError("there are no sentences to embed.", "take a split that has some")
    base, device = model.base_model, device_of(model)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    rows: dict[int, np.ndarray] = {}
    with torch.no_grad(), evaluating(model), computing(model):
        for start in range(0, len(order), AT_ONCE):
            numbers = order[start : start + AT_ONCE]
            batch = tokenizer(
                [texts[i] for i in numbers],
                padding=True,
                truncation=True,
                max_length=LENGTH,
                return_tensors="pt",
            ).to(device)
            first = base(**batch).last_hidden_state[:, 0]
            rows.update(zip(numbers, first.double().cpu().numpy(), strict=True))
    return np.stack([rows[i] for i in range(len(texts))])


def described(embedded: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Points, silhouette and distances of centroids, for vectors by language."""
    import numpy as np

    languages, clouds = list(embedded), list(embedded.values())
    centroids = np.stack([cloud.mean(0) for cloud in clouds])
    apart = np.linalg.norm(centroids[:, None] - centroids[None], axis=-1)
    points = on_map(np.concatenate(clouds)).round(PLACES)
    parts = np.split(points, np.cumsum([len(cloud) for cloud in clouds])[:-1])
    return {
        "points": {lang: part.tolist() for lang, part in zip(languages, parts, strict=True)},
        "silhouette": silhouette(embedded),
        "centroids": {"languages": languages, "distances": apart.tolist()},
    }


def on_map(vectors: np.ndarray) -> np.ndarray:
    """The vectors as points of one t-SNE, started from their first two principal components."""
    import numpy as np

    if len(vectors) < 4:
        raise DataError(f"{len(vectors)} sentences are too few for a map.", "take at least 4")
    manifold = optional("sklearn.manifold", "measures", "A map of sentences", "scikit-learn")
    neighbours = min(PERPLEXITY, (len(vectors) - 1) / 3)  # t-SNE refuses more than these
    tsne = manifold.TSNE(2, perplexity=neighbours, init="pca", random_state=0)
    return np.asarray(tsne.fit_transform(vectors.astype(np.float32)), dtype=float)


def silhouette(embedded: Mapping[str, np.ndarray]) -> float | None:
    """How well sentences fit their language: 1 apart, 0 overlapping, below 0 nearer to another.

    None for a single language.
    """
    import numpy as np

    if len(embedded) < 2:
        return None
    from sklearn.metrics import silhouette_score  # the map was drawn, so it is installed

    clouds = list(embedded.values())
    labels = np.repeat(list(embedded), [len(cloud) for cloud in clouds])
    return float(silhouette_score(np.concatenate(clouds), labels))
