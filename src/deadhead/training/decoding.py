"""From source sentences to tokens, many at a time with a cache: greedily, or by beam search.

The search is that of tensor2tensor, which the weak-link paper uses: the score of a translation is its
log-probability divided by ((5 + length) / 6) ** 0.6, and a sentence is done when nothing that is still
open can beat the best that has ended. Three things make it quick: the cache of the attention to the source
is the same for all beams of a sentence and is never reordered; sentences that are done leave the batch;
and the best pieces are picked row by row from the logits, so no distribution over all beams is written.
A translation does not depend on its batch-mates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FURTHER = 50  # tokens that a translation may be longer than its source
PENALTY = 0.6  # for length, in the beam
EVERY = 4  # steps between looks at which sentences are done: a look waits for the device
# What else a generation config may ask for that changes tokens, each with the value that asks for nothing.
UNKNOWN = {
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "min_length": 0,
    "min_new_tokens": None, "begin_suppress_tokens": None, "sequence_bias": None, "exponential_decay_length_penalty": None, "guidance_scale": None,
}  # fmt: skip


@dataclass(frozen=True)
class Marks:
    """The tokens that steer a decoding: where it begins, what ends it, what may not come."""

    start: int
    ends: tuple[int, ...]
    banned: tuple[int, ...] = ()
    first: int | None = None  # forced after the start, as multilingual models name the language

    @classmethod
    def of(cls, model: Any) -> Marks | None:
        """Those of a model; None where its generation config asks for what only `generate` of transformers does."""
        asked = model.generation_config
        bad = asked.bad_words_ids or []
        if any(len(one) != 1 for one in bad) or any(
            getattr(asked, name, none) not in (none, None) for name, none in UNKNOWN.items()
        ):
            return None
        end = asked.eos_token_id if asked.eos_token_id is not None else model.config.eos_token_id
        start = asked.decoder_start_token_id
        for other in (getattr(model.config, "decoder_start_token_id", None), asked.bos_token_id):
            start = other if start is None else start
        if start is None or end is None:
            return None
        banned = tuple({*(one[0] for one in bad), *(asked.suppress_tokens or ())})
        return cls(
            int(start),
            tuple(end) if isinstance(end, list | tuple) else (int(end),),
            banned,
            asked.forced_bos_token_id,
        )


class Decoder:
    """The decoder of a model over a batch of sources, with its cache. Its rows can be picked anew after every step."""

    def __init__(self, model: Any, input_ids: Tensor, mask: Tensor):
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        self.model, self.mask = model, mask
        self.hidden = model.get_encoder()(
            input_ids=input_ids, attention_mask=mask
        ).last_hidden_state
        self.cache = EncoderDecoderCache(
            DynamicCache(config=model.config), DynamicCache(config=model.config)
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of what follows these tokens, one for each row."""
        from transformers.modeling_outputs import BaseModelOutput

        sources = BaseModelOutput(last_hidden_state=self.hidden)
        found = self.model(
            encoder_outputs=sources,
            attention_mask=self.mask,
            decoder_input_ids=tokens[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: Tensor = found.logits[:, -1].float()
        return logits

    def pick(self, rows: Tensor, sources: bool) -> None:
        """Go on with these rows; `sources`: they are not of the same sentences in the same order."""
        self._pick(self.cache.self_attention_cache, rows)
        if sources:
            self._pick(self.cache.cross_attention_cache, rows)
            self.mask, self.hidden = (
                self.mask.index_select(0, rows),
                self.hidden.index_select(0, rows),
            )

    @staticmethod
    def _pick(cache: Any, rows: Tensor) -> None:
        for layer in cache.layers:
            if layer.is_initialized:
                layer.keys, layer.values = (
                    layer.keys.index_select(0, rows),
                    layer.values.index_select(0, rows),
                )


def decode(
    model: Any, input_ids: Tensor, mask: Tensor, marks: Marks, beams: int, room: int | None = None
) -> Tensor:
    """The tokens of each translation, made up with the end to one length; at most FURTHER more than the source has."""
    limits = mask.sum(1).cpu() + FURTHER
    if room is not None:
        limits.clamp_(max=room)
    decoder = Decoder(model, input_ids, mask)
    return greedy(decoder, marks, limits) if beams == 1 else beam(decoder, marks, limits, beams)


def greedy(decoder: Decoder, marks: Marks, limits: Tensor) -> Tensor:
    """The likeliest token at each step."""
    device, ends = decoder.mask.device, torch.tensor(marks.ends, device=decoder.mask.device)
    found = torch.full((len(limits), int(limits.max())), marks.ends[0], device=device)
    left, done = (
        torch.arange(len(limits), device=device),
        torch.zeros(len(limits), dtype=torch.bool, device=device),
    )
    tokens = torch.full((len(limits),), marks.start, device=device)
    for step in range(found.shape[1]):
        tokens = _allowed(decoder(tokens), marks, step).argmax(-1)
        tokens = torch.where(_over(limits, step, device), marks.ends[0], tokens)
        found[left, step] = torch.where(done, marks.ends[0], tokens)
        done |= torch.isin(tokens, ends)
        kept = _open(done, step)
        if kept is not None:
            if not len(kept):
                break
            decoder.pick(kept, sources=True)
            left, done, tokens, limits = left[kept], done[kept], tokens[kept], limits[kept.cpu()]
    return found


def beam(decoder: Decoder, marks: Marks, limits: Tensor, beams: int) -> Tensor:
    """The best translation that a search with so many open ones finds.

    Of each sentence are kept: the tokens and log-probabilities of its open translations, and the best that has ended.
    """
    device, ends, n = (
        decoder.mask.device,
        torch.tensor(marks.ends, device=decoder.mask.device),
        len(limits),
    )
    longest = int(limits.max())
    found = torch.full((n, longest), marks.ends[0], device=device)
    left, best = torch.arange(n, device=device), torch.full((n,), -math.inf, device=device)
    tokens = torch.full((n, 1, longest), marks.ends[0], device=device)
    score, last = torch.zeros((n, 1), device=device), torch.full((n,), marks.start, device=device)
    for step in range(longest):
        wide = score.shape[1]
        value, piece = _best_pieces(
            _allowed(decoder(last), marks, step),
            _over(limits, step, device).repeat_interleave(wide),
            marks,
            2 * beams,
        )
        value, piece = (score.reshape(-1, 1) + value).view(len(left), -1), piece.view(len(left), -1)
        value, at = value.topk(min(2 * beams, value.shape[1]))
        piece, came = piece.gather(1, at), at // (piece.shape[1] // wide)
        ended = torch.isin(piece, ends)
        best, which, better = _best_ended(
            value.masked_fill(~ended, -math.inf) / norm(step + 1), best
        )
        row = came.gather(1, which[:, None])[:, 0]
        held = tokens[
            torch.arange(len(left), device=device), row
        ]  # ends from here on, which is what has come
        found[left] = torch.where(better[:, None], held, found[left])
        score, at = value.masked_fill(ended, -math.inf).topk(min(beams, value.shape[1]))
        came, last = came.gather(1, at), piece.gather(1, at)
        tokens = tokens.gather(1, came[:, :, None].expand(-1, -1, longest))
        tokens[:, :, step] = last
        ceiling = score[:, 0] / norm(limits).to(
            device
        )  # what the open ones come to if nothing more is lost
        kept = _open(best >= ceiling, step)
        if kept is not None and not len(kept):
            break
        rows = torch.arange(len(left), device=device)[:, None] * wide + came
        if kept is not None:
            rows, left, best, score, last, tokens = (
                x[kept] for x in (rows, left, best, score, last, tokens)
            )
            limits = limits[kept.cpu()]
        decoder.pick(rows.flatten(), sources=kept is not None or came.shape[1] != wide)
        last = last.flatten()
    return found


def norm(length: Any) -> Any:
    """What the log-probability of a translation of so many tokens, its end among them, is divided by."""
    return ((5 + length) / 6) ** PENALTY


def _allowed(logits: Tensor, marks: Marks, step: int) -> Tensor:
    """Logits without what may not come."""
    if marks.banned:
        logits[:, list(marks.banned)] = -math.inf
    if step == 0 and marks.first is not None:
        only = torch.full_like(logits, -math.inf)
        only[:, marks.first] = 0.0
        return only
    return logits


def _over(limits: Tensor, step: int, device: torch.device) -> Tensor:
    """Whether each sentence must end with this step."""
    return (limits <= step + 1).to(device, non_blocking=True)


def _best_pieces(logits: Tensor, over: Tensor, marks: Marks, n: int) -> tuple[Tensor, Tensor]:
    """The n likeliest tokens of each row with their log-probabilities; the end alone where a sentence must end."""
    value, piece = logits.topk(min(n, logits.shape[1]))
    end = torch.full_like(value, -math.inf)
    end[:, 0] = logits[:, marks.ends[0]]
    value = torch.where(over[:, None], end, value) - logits.logsumexp(-1, keepdim=True)
    return value, torch.where(over[:, None], marks.ends[0], piece)


def _best_ended(scores: Tensor, best: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best score of each sentence so far, which of the new ones it may be, and whether it is one of them."""
    value, which = scores.max(1)
    return torch.maximum(value, best), which, value > best


def _open(done: Tensor, step: int) -> Tensor | None:
    """The sentences that are not done, where it is time to look and some are; a look waits for the device."""
    if step % EVERY != EVERY - 1:
        return None
    kept = (~done).nonzero()[:, 0]
    return kept if len(kept) < len(done) else None
