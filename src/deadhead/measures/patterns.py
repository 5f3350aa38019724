"""Attention patterns: how much each head reads the tokens that known kinds of heads read.

The inputs are random tokens that are repeated, `a b c d a b c d`: they mean nothing, so what a head
reads shows its habit. A score is the mean attention of the head, between 0 and 1, from the repeated
tokens to one place: the token before, the first token, the earlier copy of the same token, or the
token after that copy, which is how a decoder continues what it has read before (Olsson et al.,
2022). Encoders read both ways; there, too, only the earlier copy counts, and a high score says
that the head compares tokens, not that it predicts the next one.

Two more scores say whether a head needs the distance. `retrieval`: some tokens, the needle, are
inserted into others and repeated at the end; it is the share of the repeated tokens at which a head
of a decoder reads nothing as much as the token to copy next (Wu et al., 2024). A head that reads
both ways retrieves the later copy of a token instead, by its mean attention. `streaming`: the mean
attention to the first and the recent tokens together, as a streaming head would see them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from deadhead.errors import DeadheadError, UnsupportedModel
from deadhead.forward import configs_of, device_of, forward, token_limit, vocabulary_sizes
from deadhead.registry.options import Count, whole_from

from .measure import HeadMap, Measure, MeasureInputs, Stages, trials_in_words

if TYPE_CHECKING:
    from torch import Tensor

    from deadhead.heads.site import Site

LEAST = 4  # random tokens; of fewer, the token after the earlier copy is the token before
AT_ONCE = 16  # sequences in a forward pass
BLOCKS = ("encoder", "decoder", "text")  # with attention of tokens to tokens of one sequence
# what a query reads, by its place, the place where the tokens start and how many are repeated
KEYS: dict[str, Callable[[Any, int, int], Any]] = {
    "previous_token": lambda query, start, length: query - 1,
    "first_token": lambda query, start, length: query * 0,
    "duplicate_token": lambda query, start, length: query - length,
    "induction": lambda query, start, length: query - length + 1,
}
REPEATED = ("duplicate_token", "induction")  # only queries in the second half
SCORES = (*KEYS, "retrieval", "streaming")
LABELS = {
    "previous_token": "Attention to the previous token",
    "first_token": "Attention to the first token",
    "duplicate_token": "Attention to the earlier copy of the token",
    "induction": "Attention to the token after the earlier copy",
    "retrieval": "Copies of tokens from far back",
    "streaming": "Attention to the first and the recent tokens",
}
HeadScores = dict[str, dict[str, float]]  # score -> head -> attention


@dataclass(frozen=True)
class Patterns(Measure):
    """How much every head left reads the places that known kinds of heads read."""

    label = "Attention patterns"
    help = (
        "Mean attention on repeated random tokens, 1 where a head reads nothing else. Cross-"
        "attention has no scores."
    )
    legend = "attention"
    drawn_as = "maps"

    sequences: Count = 20
    # tokens that are repeated; fewer where the model reads no sequence twice as long
    length: Annotated[int, whole_from(LEAST)] = 50
    seed: Annotated[int, whole_from(0)] = 0  # for the tokens
    sink: Annotated[int, whole_from(0)] = 4  # first tokens of the score `streaming`
    recent: Count = 16  # last tokens of the score `streaming`, with the own one

    def __call__(self, model: Any, inputs: MeasureInputs) -> HeadScores:
        return patterns(model, tokenizer=inputs.tokenizer, **vars(self))

    @classmethod
    def maps(cls, name: str) -> dict[str, HeadMap]:
        return {
            f"{name}.{score}": HeadMap(label=label, help=cls.help, legend=cls.legend)
            for score, label in LABELS.items()
        }

    @classmethod
    def finding(cls, trials: Sequence[Stages]) -> str | None:
        stages = [trial.get("after") or trial.get("before") or {} for trial in trials]
        highest = {
            score: fmean(max(stage[score].values()) for stage in stages if stage.get(score))
            for score in KEYS
            if any(stage.get(score) for stage in stages)
        }
        if not highest:
            return None
        words = ", ".join(f"{score.replace('_', ' ')} {v:.2f}" for score, v in highest.items())
        number = trials_in_words(sum(any(stage.values()) for stage in stages))
        return f"The highest attention of a head to each place is: {words} ({number})."


def patterns(
    model: Any,
    *,
    sequences: int = 20,
    length: int = 50,
    seed: int = 0,
    sink: int = 4,
    recent: int = 16,
    tokenizer: Any = None,
) -> HeadScores:
    """The scores of each head: `previous_token`, `first_token`, `duplicate_token`, `induction`,
    `retrieval` and `streaming`.

    Args:
        sequences: how many repeated sequences the mean is over.
        length: random tokens in a sequence, each once; then the same tokens again. If the model
            reads only shorter sequences, or knows fewer tokens, the length is reduced.
        sink, recent: how many first and last tokens the score `streaming` is about.
        tokenizer: knows special tokens, which are never drawn, and those that a text begins and
            ends with. Without it, those of the config are known.

    >>> scores = patterns(model)
    >>> max(scores["induction"], key=scores["induction"].get)
    'decoder.5.1'
    """
    # Longer than most functions: half of it describes the arguments.
    import torch

    from deadhead.heads.discover import find_sites
    from deadhead.rankers.attention_maps import maps_read, no_map
    from deadhead.rankers.run import frozen

    window = {"sink": sink, "recent": recent}
    Patterns(sequences=sequences, length=length, seed=seed, **window)  # checks them
    inputs = _Inputs(model, tokenizer)
    length = min(length, inputs.most)
    sites = [site for site in find_sites(model) if site.kept and site.block in BLOCKS]
    sums: dict[int, dict[str, list[Tensor]]] = {}
    needles: list[int] = []  # where the needles of the running batch begin; none: no needles

    def read(site: Site, attention: Tensor) -> None:
        start = inputs.start(site.block)
        if attention.shape[-2] == attention.shape[-1] >= start + 2 * length:
            of_site = sums.setdefault(id(site), {score: [] for score in SCORES})
            if needles and of_site["retrieval"]:
                return  # it reads both ways
            if needles:
                scores = {"needles": copies(attention, start, 2 * length, needles)}
            else:
                scores = scores_of(attention, start, length, **window)
            for score, values in scores.items():
                of_site.setdefault(score, []).extend(values)  # one for each sequence

    with frozen(model, seed), torch.no_grad(), maps_read(model, sites, read):
        for rows, needles in inputs.rows(sequences, length, seed):
            if needles and all(of_site["retrieval"] for of_site in sums.values()):
                break  # no layer reads back alone
            try:
                forward(model, inputs.batch(rows))
            except (DeadheadError, torch.OutOfMemoryError):
                raise
            except Exception as problem:  # whatever the model's own code raises
                raise _not_run(model, problem) from problem
    for site in sites:
        if id(site) not in sums:
            raise no_map(site, "name a model that returns them: output_attentions=True")
        sums[id(site)]["retrieval"] = sums[id(site)].pop("needles", sums[id(site)]["retrieval"])
    return {
        score: {
            f"{site.block}.{site.layer}.{head}": value
            for site in sites
            for head, value in zip(
                site.kept, torch.stack(sums[id(site)][score]).mean(0).tolist(), strict=True
            )
        }
        for score in SCORES
    }


def scores_of(
    attention: Tensor, start: int, length: int, *, sink: int, recent: int
) -> dict[str, Tensor]:
    """The scores of each head in maps of attention, sequences x heads; retrieval if it reads ahead.

    attention: sequences x heads x queries x keys.
    start: the place of the first random token.
    """
    import torch

    from deadhead.heads.streaming import Streaming

    places = torch.arange(attention.shape[2], device=attention.device)
    every = places[max(start, 1) : start + 2 * length]  # the first place has none before it
    again = places[start + length : start + 2 * length]
    scores = {}
    for score, key in KEYS.items():
        queries = again if score in REPEATED else every
        scores[score] = attention[:, :, queries, key(queries, start, length)].mean(-1)
    size = attention.shape[-1]
    seen = Streaming(sink=sink, recent=recent).seen(size, size, attention.device)
    scores["streaming"] = (attention * seen)[:, :, again].sum(-1).mean(-1)
    if bool(attention.triu(1).any()):
        scores["retrieval"] = attention[:, :, again - length, again].mean(-1)
    return scores


def copies(attention: Tensor, start: int, length: int, needles: Sequence[int]) -> Tensor:
    """The share of a repeated needle at which a head reads its next token most, sequences x heads.

    length: of a sequence, which ends with the needle. needles: where it is, for each sequence.
    """
    import torch

    size = needle_size(length)
    steps = torch.arange(size - 1, device=attention.device)
    most = attention[:, :, start + length - size + steps].argmax(-1)
    begins = torch.tensor(needles, device=attention.device)
    next_tokens = start + begins[:, None] + steps + 1
    return (most == next_tokens[:, None]).to(attention).mean(-1)


def needle_size(length: int) -> int:
    """How many tokens of a sequence of this length are the needle, and at its end the needle again.

    So few that a window of recent tokens does not reach from one to the other.
    """
    return max(2, length // 10)


class _Inputs:
    """Repeated random sequences for a model, within its vocabulary and its longest sequence."""

    def __init__(self, model: Any, tokenizer: Any):
        names = inspect.signature(type(model).forward).parameters
        main = getattr(model, "main_input_name", "input_ids")
        if "input_ids" not in names or main != "input_ids":
            raise _unreadable(model, f"its input is {main}")
        self.model, self.has_mask = model, "attention_mask" in names
        self.entries = [  # the numbers in all configs, each with its name
            (name, number)
            for config in configs_of(model)
            for name, value in vars(config).items()
            for number in _numbers(value)
        ]
        self.decodes = bool(getattr(model.config, "is_encoder_decoder", False))
        self.known = self._known_tokens(tokenizer)
        self.before, self.after = self._ends(tokenizer)
        self.tokens = self._tokens(tokenizer)
        self.most = min(len(self.tokens), (self._longest() - 1 - len(self.after)) // 2)
        if self.most < LEAST:
            raise UnsupportedModel(
                f"patterns expects a model that reads {LEAST} tokens twice, got "
                f"{type(model).__name__}, which reads {self._longest()} places and knows "
                f"{len(self.tokens)} tokens that are not special.",
                "name a model that knows more tokens, or leave out a tokenizer that knows fewer"
                if len(self.tokens) < LEAST
                else "name a model that reads longer sequences",
            )

    def start(self, block: str) -> int:
        """The place of the first random token in the sequences of a block."""
        return 1 if self.decodes and block == "decoder" else len(self.before)

    def rows(self, sequences: int, length: int, seed: int) -> Iterator[tuple[Tensor, list[int]]]:
        """Sequences of random tokens that are repeated; then sequences with needles, and where."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        tokens = torch.tensor(self.tokens)

        def drawn(count: int) -> Tensor:
            return tokens[torch.randperm(len(tokens), generator=generator)[:count]]

        halves = [drawn(length) for _ in range(sequences)]
        for first in range(0, sequences, AT_ONCE):
            half = torch.stack(halves[first : first + AT_ONCE])
            yield torch.cat([half, half], dim=1), []
        size = needle_size(2 * length)
        others = 2 * length - 2 * size
        for first in range(0, sequences, AT_ONCE):
            rows, places = [], []
            for _ in range(min(AT_ONCE, sequences - first)):
                needle = drawn(size)
                rest = tokens[~torch.isin(tokens, needle)]
                hay = rest[torch.randint(len(rest), (others,), generator=generator)]
                # in the first half, so that it is far back
                places.append(int(torch.randint(length - 2 * size + 1, (1,), generator=generator)))
                before, after = hay[: places[-1]], hay[places[-1] :]
                rows.append(torch.cat([before, needle, after, needle]))
            yield torch.stack(rows), places

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        import torch

        batch = {"input_ids": _framed(rows, self.before, self.after)}
        if self.has_mask:
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        if self.decodes:
            batch["decoder_input_ids"] = _framed(rows, self._decoder_start(), [])
        device = device_of(self.model)
        return {name: value.to(device) for name, value in batch.items()}

    def _ends(self, tokenizer: Any) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text; a decoder's text has no end."""
        first = self._special(tokenizer, "bos_token_id", "cls_token_id")
        last = self._special(tokenizer, "sep_token_id", "eos_token_id")
        reads_both_ways = self.decodes or not _is_decoder(self.model)
        return first[:1], last[:1] if reads_both_ways else []

    def _special(self, tokenizer: Any, *names: str) -> list[int]:
        numbers = [n for name in names for n in _numbers(getattr(tokenizer, name, None))]
        numbers += [n for name in names for entry, n in self.entries if entry == name]
        return [n for n in numbers if n < self.known]

    def _decoder_start(self) -> list[int]:
        names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        return [*self._special(None, *names), 0][:1]

    def _tokens(self, tokenizer: Any) -> list[int]:
        """The numbers of the tokens that are not special."""
        ends = ("_token_id", "_token_index", "_token_ids")
        special = {number for name, number in self.entries if name.endswith(ends)}
        if tokenizer is not None:
            special.update(tokenizer.all_special_ids)
        return [number for number in range(self.known) if number not in special]

    def _known_tokens(self, tokenizer: Any) -> int:
        """How many tokens every part of the model and the tokenizer know."""
        try:
            sizes = [self.model.get_input_embeddings().weight.shape[0]]
        except (AttributeError, NotImplementedError):
            raise _unreadable(self.model, "it has no single table of tokens") from None
        sizes += vocabulary_sizes(self.model)
        return min([*sizes, len(tokenizer)] if tokenizer is not None else sizes)

    def _longest(self) -> int:
        """How many tokens the model reads at most."""
        limits = (token_limit(self.model), token_limit(self.model, decoder=self.decodes))
        return min((limit for limit in limits if limit is not None), default=10**6)


def _is_decoder(model: Any) -> bool:
    from deadhead.heads.discover import discover

    return "decoder" in discover(model).blocks or "text" in discover(model).blocks


def _numbers(value: Any) -> list[int]:
    """The ids in an entry of a config, which is a number, a list of them, or nothing."""
    values = value if isinstance(value, list | tuple) else [value]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]


def _framed(tokens: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    import torch

    ends = [torch.tensor(list(end)).expand(len(tokens), -1).long() for end in (before, after)]
    return torch.cat([ends[0], tokens, ends[1]], dim=1)


def _unreadable(model: Any, reason: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"patterns expects a model of text, got {type(model).__name__}: {reason}.",
        "name a model that reads token ids alone",
    )


def _not_run(model: Any, problem: Exception) -> UnsupportedModel:
    reason = next(iter(str(problem).splitlines()), "no reason given")
    return UnsupportedModel(
        f"patterns expects a model that runs on token ids alone, got {type(model).__name__}, whose "
        f"code raises {type(problem).__name__}: {reason}",
        'name a model that runs on input_ids with attn_implementation="eager"',
    )
