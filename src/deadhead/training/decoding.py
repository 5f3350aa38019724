"""Translate source sentences to tokens in batches, with a cache: greedily, or by beam search.

The search is that of tensor2tensor, which the weak-link paper uses: the score of a translation is
its log-probability divided by ((5 + length) / 6) ** 0.6, and a sentence is done when no open
translation can beat the best finished one. Three things make it fast: all beams of a sentence share
the cache of the attention to the source, which is never reordered; finished sentences leave the
batch; and the best tokens are picked per row of the logits, so no distribution over all beams is
written. A translation does not depend on the other sentences of its batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FURTHER = 50  # tokens that a translation may be longer than its source
PENALTY = 0.6  # for length, in the beam
EVERY = 4  # steps between checks which sentences are done: a check waits for the device
# Settings of a generation config that are not supported, with the value that has no effect.
UNSUPPORTED = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "guidance_scale": None,
}


@dataclass(frozen=True)
class Marks:
    """The tokens that control decoding: the start, the ends, and tokens that are not allowed."""

    start: int
    ends: tuple[int, ...]
    banned: tuple[int, ...] = ()
    first: int | None = None  # forced after the start: the language, in multilingual models

    @classmethod
    def of(cls, model: Any) -> Marks | None:
        """Those of a model; None if its generation config needs `generate` of transformers."""
        config = model.generation_config
        bad = config.bad_words_ids or []
        settings = [(getattr(config, name, none), none) for name, none in UNSUPPORTED.items()]
        unsupported = any(value not in (none, None) for value, none in settings)
        if unsupported or any(len(word) != 1 for word in bad):
            return None
        end = config.eos_token_id if config.eos_token_id is not None else model.config.eos_token_id
        start = config.decoder_start_token_id
        for other in (getattr(model.config, "decoder_start_token_id", None), config.bos_token_id):
            start = other if start is None else start
        if start is None or end is None:
            return None
        ends = tuple(end) if isinstance(end, list | tuple) else (int(end),)
        banned = tuple({*(word[0] for word in bad), *(config.suppress_tokens or ())})
        return cls(int(start), ends, banned, config.forced_bos_token_id)


class Decoder:
    """The decoder of a model over a batch of sources, with its cache."""

    def __init__(self, model: Any, input_ids: Tensor, mask: Tensor):
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        self.model, self.mask = model, mask
        encoder = model.get_encoder()
        self.hidden = encoder(input_ids=input_ids, attention_mask=mask).last_hidden_state
        own, cross = (DynamicCache(config=model.config) for _ in range(2))
        self.cache = EncoderDecoderCache(own, cross)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of what follows these tokens, one for each row."""
        from transformers.modeling_outputs import BaseModelOutput

        outputs = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self.hidden),
            attention_mask=self.mask,
            decoder_input_ids=tokens[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: Tensor = outputs.logits[:, -1].float()
        return logits

    def pick(self, rows: Tensor, sources: bool) -> None:
        """Continue with these rows. `sources`: they are other sentences, or in another order."""
        self._pick(self.cache.self_attention_cache, rows)
        if sources:
            self._pick(self.cache.cross_attention_cache, rows)
            self.mask = self.mask.index_select(0, rows)
            self.hidden = self.hidden.index_select(0, rows)

    @staticmethod
    def _pick(cache: Any, rows: Tensor) -> None:
        for layer in cache.layers:
            if layer.is_initialized:
                layer.keys = layer.keys.index_select(0, rows)
                layer.values = layer.values.index_select(0, rows)


def decode(
    model: Any, input_ids: Tensor, mask: Tensor, marks: Marks, beams: int, room: int | None = None
) -> Tensor:
    """The tokens of each translation, padded with the end; at most FURTHER more than the source."""
    limits = mask.sum(1).cpu() + FURTHER
    if room is not None:
        limits.clamp_(max=room)
    decoder = Decoder(model, input_ids, mask)
    if beams == 1:
        return greedy(decoder, marks, limits)
    return BeamSearch(decoder, marks, limits, beams).run()


def greedy(decoder: Decoder, marks: Marks, limits: Tensor) -> Tensor:
    """The most likely token at each step."""
    device = decoder.mask.device
    ends = torch.tensor(marks.ends, device=device)
    size = len(limits)
    translations = torch.full((size, int(limits.max())), marks.ends[0], device=device)
    sentences = torch.arange(size, device=device)  # those in the batch
    done = torch.zeros(size, dtype=torch.bool, device=device)
    tokens = torch.full((size,), marks.start, device=device)
    for step in range(translations.shape[1]):
        tokens = _allowed(decoder(tokens), marks, step).argmax(-1)
        tokens = torch.where(_must_end(limits, step, device), marks.ends[0], tokens)
        translations[sentences, step] = torch.where(done, marks.ends[0], tokens)
        done |= torch.isin(tokens, ends)
        kept = _unfinished(done, step)
        if kept is None:
            continue
        if not len(kept):
            break
        decoder.pick(kept, sources=True)
        sentences = sentences[kept]
        done = done[kept]
        tokens = tokens[kept]
        limits = limits[kept.cpu()]
    return translations


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of each sentence; each tensor is sentences x candidates."""

    scores: Tensor  # log-probability of the whole translation
    tokens: Tensor  # the token that is added
    parents: Tensor  # the number of the open translation it is added to
    ended: Tensor  # whether the token is an end


class BeamSearch:
    """A search with some open translations for each sentence; tensors have a row for each."""

    def __init__(self, decoder: Decoder, marks: Marks, limits: Tensor, beams: int):
        self.decoder, self.marks, self.limits, self.beams = decoder, marks, limits, beams
        self.device = device = decoder.mask.device
        self.ends = torch.tensor(marks.ends, device=device)
        size, self.longest = len(limits), int(limits.max())
        # the result, for all sentences
        self.translations = torch.full((size, self.longest), marks.ends[0], device=device)
        self.sentences = torch.arange(size, device=device)  # those in the batch
        self.best = torch.full((size,), -math.inf, device=device)  # score of the finished one
        # open translations: sentences x beams, one beam at the start
        self.scores = torch.zeros((size, 1), device=device)
        self.prefixes = torch.full((size, 1, self.longest), marks.ends[0], device=device)

    def run(self) -> Tensor:
        last = torch.full((len(self.sentences),), self.marks.start, device=self.device)
        for step in range(self.longest):
            candidates = self._candidates(last, step)
            self._finish(candidates, step)
            width = self.scores.shape[1]
            tokens, parents = self._extend(candidates, step)
            # the best score an open translation can reach, if it loses no more probability
            ceiling = self.scores[:, 0] / norm(self.limits).to(self.device)
            kept = _unfinished(self.best >= ceiling, step)
            if kept is not None and not len(kept):
                break
            first = torch.arange(len(self.sentences), device=self.device)[:, None] * width
            rows = first + parents
            if kept is not None:
                rows, tokens = rows[kept], tokens[kept]
                self._keep(kept)
            self.decoder.pick(rows.flatten(), kept is not None or parents.shape[1] != width)
            last = tokens.flatten()
        return self.translations

    def _candidates(self, last: Tensor, step: int) -> _Candidates:
        """Twice as many continuations as beams, so that enough are left if half of them end."""
        size, width = self.scores.shape
        logits = _allowed(self.decoder(last), self.marks, step)
        must_end = _must_end(self.limits, step, self.device).repeat_interleave(width)
        added, tokens = _best_tokens(logits, must_end, self.marks, 2 * self.beams)
        per_parent = tokens.shape[1]
        scores = (self.scores.reshape(-1, 1) + added).view(size, -1)
        scores, places = scores.topk(min(2 * self.beams, scores.shape[1]))
        tokens = tokens.view(size, -1).gather(1, places)
        ended = torch.isin(tokens, self.ends)
        return _Candidates(scores, tokens, places // per_parent, ended)

    def _finish(self, candidates: _Candidates, step: int) -> None:
        """Store the best candidate that has ended, where it beats the one before."""
        scores = candidates.scores.masked_fill(~candidates.ended, -math.inf) / norm(step + 1)
        score, place = scores.max(1)
        parent = candidates.parents.gather(1, place[:, None])[:, 0]
        # the prefix is filled up with ends, so that the end is in its place already
        prefix = self.prefixes[torch.arange(len(parent), device=self.device), parent]
        before = self.translations[self.sentences]
        better = (score > self.best)[:, None]
        self.translations[self.sentences] = torch.where(better, prefix, before)
        self.best = torch.maximum(score, self.best)

    def _extend(self, candidates: _Candidates, step: int) -> tuple[Tensor, Tensor]:
        """Continue with the best candidates that are open: their tokens and their parents."""
        scores = candidates.scores.masked_fill(candidates.ended, -math.inf)
        self.scores, places = scores.topk(min(self.beams, scores.shape[1]))
        parents = candidates.parents.gather(1, places)
        tokens = candidates.tokens.gather(1, places)
        self.prefixes = self.prefixes.gather(1, parents[:, :, None].expand(-1, -1, self.longest))
        self.prefixes[:, :, step] = tokens
        return tokens, parents

    def _keep(self, kept: Tensor) -> None:
        """Take the other sentences out of the batch."""
        self.sentences = self.sentences[kept]
        self.best = self.best[kept]
        self.scores = self.scores[kept]
        self.prefixes = self.prefixes[kept]
        self.limits = self.limits[kept.cpu()]


def norm(length: Any) -> Any:
    """What the log-probability of a translation of this length, its end included, is divided by."""
    return ((5 + length) / 6) ** PENALTY


def _allowed(logits: Tensor, marks: Marks, step: int) -> Tensor:
    """The logits without tokens that are not allowed."""
    if marks.banned:
        logits[:, list(marks.banned)] = -math.inf
    if step == 0 and marks.first is not None:
        only = torch.full_like(logits, -math.inf)
        only[:, marks.first] = 0.0
        return only
    return logits


def _must_end(limits: Tensor, step: int, device: torch.device) -> Tensor:
    """Whether each sentence must end with this step."""
    return (limits <= step + 1).to(device, non_blocking=True)


def _best_tokens(logits: Tensor, must_end: Tensor, marks: Marks, n: int) -> tuple[Tensor, Tensor]:
    """The n most likely tokens of each row with their log-probabilities, or the end alone."""
    best, tokens = logits.topk(min(n, logits.shape[1]))
    end = torch.full_like(best, -math.inf)
    end[:, 0] = logits[:, marks.ends[0]]
    best = torch.where(must_end[:, None], end, best) - logits.logsumexp(-1, keepdim=True)
    return best, torch.where(must_end[:, None], marks.ends[0], tokens)


def _unfinished(done: Tensor, step: int) -> Tensor | None:
    """The sentences that are not done; None if it is no time to check, or if none is done."""
    if step % EVERY != EVERY - 1:
        return None
    kept = (~done).nonzero()[:, 0]
    return kept if len(kept) < len(done) else None
