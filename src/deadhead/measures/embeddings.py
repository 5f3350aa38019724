"""Sentence embeddings by language: are languages clusters of their own, and how far apart?

A sentence is the last layer's vector of its first token. All languages are drawn in one t-SNE; since
distances in such a map mean little, the silhouette of the languages and the distances between their
centres are computed in the space of the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadhead.errors import DataError, MissingExtra, UnsupportedModel

from . import Given, check_split, check_whole

PLACES = 2  # to which points of the map are rounded


@dataclass(frozen=True)
class Embeddings:
    """The sentences of every language as points, with the silhouette and the distances of the languages."""

    sentences: int = 1000  # of every language, the same ones where the data is parallel
    split: str = "dev"
    length: int = 128  # sub-words of a sentence at most
    perplexity: int = 30
    seed: int = 0  # of the t-SNE

    def __post_init__(self) -> None:
        check_split(self.split)
        for name, least in (("sentences", 2), ("length", 4), ("perplexity", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), least)

    def __call__(self, model: Any, given: Given) -> dict[str, Any]:
        texts = given.texts(self.split, self.sentences)
        found = {
            lang: vectors(model, given.tokenizer, several, length=self.length)
            for lang, several in texts.items()
        }
        return described(found, perplexity=self.perplexity, seed=self.seed)


def vectors(
    model: Any, tokenizer: Any, texts: Sequence[str], *, length: int = 128, size: int = 64
) -> np.ndarray:
    """The last layer's vector of the first token of each text, sentences x width."""
    import torch

    from deadhead.device import computing

    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            f"{type(model).__name__} has no first token that stands for a sentence.",
            "measure embeddings of an encoder",
        )
    if not texts:
        raise DataError("there are no sentences to embed.", "take a split that has some")
    base, device, training = model.base_model, next(model.parameters()).device, model.training
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    made: dict[int, np.ndarray] = {}
    model.eval()
    try:
        with torch.no_grad(), computing(model):
            for start in range(0, len(order), size):
                some = order[start : start + size]
                batch = tokenizer(
                    [texts[i] for i in some],
                    padding=True,
                    truncation=True,
                    max_length=length,
                    return_tensors="pt",
                )
                said = base(
                    **{name: value.to(device) for name, value in batch.items()}
                ).last_hidden_state[:, 0]
                made.update(zip(some, said.double().cpu().numpy(), strict=True))
    finally:
        model.train(training)
    return np.stack([made[i] for i in range(len(texts))])


def described(
    found: Mapping[str, np.ndarray], *, perplexity: int = 30, seed: int = 0
) -> dict[str, Any]:
    """Points, silhouette and distances of centroids, for vectors by language."""
    languages = list(found)
    centroids = np.stack([found[lang].mean(0) for lang in languages])
    apart = np.linalg.norm(centroids[:, None] - centroids[None], axis=-1)
    points = on_map(np.concatenate([found[lang] for lang in languages]), perplexity, seed)
    ends = np.cumsum([len(found[lang]) for lang in languages])[:-1]
    return {
        "points": {
            lang: some.round(PLACES).tolist()
            for lang, some in zip(languages, np.split(points, ends), strict=True)
        },
        "silhouette": silhouette(found),
        "centroids": {"languages": languages, "distances": apart.tolist()},
    }


def on_map(several: np.ndarray, perplexity: int = 30, seed: int = 0) -> np.ndarray:
    """The vectors as points of one t-SNE, begun from their first two principal components."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise MissingExtra("scikit-learn", "measures", "A t-SNE") from None
    if len(several) < 4:
        raise DataError(f"{len(several)} sentences make no map.", "take at least 4")
    fitting = min(
        float(perplexity), (len(several) - 1) / 3
    )  # more neighbours than this are not there
    drawn = TSNE(2, perplexity=fitting, init="pca", random_state=seed).fit_transform(
        several.astype(np.float32)
    )
    return np.asarray(drawn, dtype=float)


def silhouette(found: Mapping[str, np.ndarray]) -> float | None:
    """How well sentences sit with their language: 1 apart, 0 overlapping, below 0 nearer to another; None for one language."""
    if len(found) < 2:
        return None
    try:
        from sklearn.metrics import silhouette_score
    except ImportError:
        raise MissingExtra("scikit-learn", "measures", "A silhouette") from None
    labels = np.repeat(list(found), [len(several) for several in found.values()])
    return float(silhouette_score(np.concatenate(list(found.values())), labels))
