"""Text to sub-word numbers, whatever the tokenizer: WordPiece, SentencePiece, byte-level BPE, fast or slow.

Two things make this quick and exact. A word is cut once and remembered, which is the whole text
where the tokenizer provably cuts at blanks first (BERT's kind). And special tokens are not asked
for row by row: a `Frame` is read off one probe and put around the pieces afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from deadhead.errors import DataError

# what transformers raises of a tokenizer that is not there, is damaged, or needs a package of its own
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError)
REMEMBERED = 1_000_000  # words; then the memory starts afresh


@dataclass(frozen=True)
class Frame:
    """The special tokens around one text or two, and the segment each position belongs to."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]  # of: before, first text, between, second text, after

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def put(self, first: Sequence[int], second: Sequence[int] = ()) -> list[int]:
        return [*self.before, *first, *self.between, *second, *self.after]

    def segments(self, first: int, second: int = 0) -> list[int]:
        a, b, c, d, e = self.types
        return (
            [a] * len(self.before)
            + [b] * first
            + [c] * len(self.between)
            + [d] * second
            + [e] * len(self.after)
        )


def knows_words(tokenizer: Any) -> bool:
    """False for what transformers makes up, without a word, where no tokenizer was saved: special tokens and perhaps a blank."""
    return bool(tokenizer.get_vocab().keys() - {"▁", *tokenizer.all_special_tokens})


class Pieces:
    """A tokenizer seen as a function from texts or words to sub-word numbers."""

    def __init__(self, tokenizer: Any):
        if not knows_words(tokenizer):
            raise DataError(
                f"no tokenizer lies with {tokenizer.name_or_path}, and one without words would be taken for it.",
                "save the tokenizer into the model's folder: AutoTokenizer.from_pretrained(ORIGINAL).save_pretrained(DIR)",
            )
        self.tokenizer = tokenizer
        self.backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._words: dict[str, list[int]] = {}

    @cached_property
    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads(self.backend.to_str()) if self.backend else {}
        return {
            key: value for key, value in spec.items() if key not in ("truncation", "padding")
        }  # state, not identity

    @cached_property
    def identity(self) -> str:
        """A hash of everything that decides how this tokenizer cuts."""
        probe = self.tokenizer(
            ["Don't stop, Zürich! 日本語 עברית 3.14"], add_special_tokens=True, verbose=False
        )["input_ids"]
        known = self._spec or [
            type(self.tokenizer).__name__,
            sorted(self.tokenizer.get_vocab().items()),
        ]
        return hashlib.sha256(
            json.dumps([known, probe, self.typed], sort_keys=True).encode()
        ).hexdigest()

    @property
    def typed(self) -> bool:
        return "token_type_ids" in self.tokenizer.model_input_names

    @property
    def pad(self) -> int:
        found = self.tokenizer.pad_token_id
        return int(found if found is not None else self.tokenizer.eos_token_id or 0)

    @cached_property
    def cuts_at_blanks(self) -> bool:
        """Whether no piece, no rule and no added token reaches over a blank, so that words can be cut one by one."""
        kinds = [
            (self._spec.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer")
        ]
        added = self._spec.get("added_tokens", [])
        return kinds == ["BertNormalizer", "BertPreTokenizer"] and not any(
            " " in token["content"] for token in added
        )

    @cached_property
    def _blank_before(self) -> bool:
        """Byte-level BPE that writes the blank into the word and was not told to put one before the first."""
        return '"type": "ByteLevel", "add_prefix_space": false' in json.dumps(
            self._spec.get("pre_tokenizer")
        )

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of whole texts, without special tokens."""
        different = list(dict.fromkeys(texts))  # premises come three times each
        pieces = dict(
            zip(
                different,
                self._by_word(different) if self.cuts_at_blanks else self._plain(different),
                strict=True,
            )
        )
        return [pieces[text] for text in texts]

    def _by_word(self, texts: Sequence[str]) -> list[list[int]]:
        cut = [text.split(" ") for text in texts]
        self._learn(chain.from_iterable(cut))
        known = self._words
        return [list(chain.from_iterable([known[word] for word in words])) for words in cut]

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of texts in the target language, without special tokens."""
        return list(
            self.tokenizer(text_target=list(texts), add_special_tokens=False, verbose=False)[
                "input_ids"
            ]
        )

    def words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The pieces of each word of each sentence; a word the tokenizer makes nothing of has none."""
        keys = [
            [f" {word}" if i and self._blank_before else word for i, word in enumerate(words)]
            for words in sentences
        ]
        self._learn(chain.from_iterable(keys))
        return [[self._words[key] for key in one] for one in keys]

    def _learn(self, words: Iterable[str]) -> None:
        wanted = dict.fromkeys(words)
        new = [word for word in wanted if word not in self._words]
        if len(self._words) + len(new) > REMEMBERED:
            self._words, new = {}, list(wanted)
        if not new:
            return
        if self.backend is None or self._blank_before:
            found = self._plain(new)
        else:
            found = [
                list(one.ids)
                for one in self._cutter.encode_batch(
                    [[word] for word in new], is_pretokenized=True, add_special_tokens=False
                )
            ]
        self._words.update(zip(new, found, strict=True))

    @cached_property
    def _cutter(self) -> Any:
        """A copy of the backend without truncation and padding: the user's tokenizer is not touched."""
        copy = type(self.backend).from_str(self.backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        if self.backend is not None:
            return [
                list(one.ids)
                for one in self._cutter.encode_batch_fast(list(texts), add_special_tokens=False)
            ]
        return list(
            self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        )

    def frame(self, pair: bool = False) -> Frame:
        """The frame of one text or of two, read off a probe."""
        first, second = self._plain(["a"])[0], self._plain(["b"])[0]
        whole = (
            self.tokenizer("a", "b", verbose=False) if pair else self.tokenizer("a", verbose=False)
        )
        ids, types = (
            list(whole["input_ids"]),
            list(whole.get("token_type_ids", [0] * len(whole["input_ids"]))),
        )
        start = _find(ids, first, 0)
        end = start + len(first)
        if not pair:
            return Frame(
                tuple(ids[:start]), (), tuple(ids[end:]), _types(types, start, end, end, end)
            )
        other = _find(ids, second, end)
        stop = other + len(second)
        return Frame(
            tuple(ids[:start]),
            tuple(ids[end:other]),
            tuple(ids[stop:]),
            _types(types, start, end, other, stop),
        )

    def target_frame(self) -> Frame:
        bare = list(
            self.tokenizer(text_target="a", add_special_tokens=False, verbose=False)["input_ids"]
        )
        ids = list(self.tokenizer(text_target="a", verbose=False)["input_ids"])
        start = _find(ids, bare, 0)
        return Frame(tuple(ids[:start]), (), tuple(ids[start + len(bare) :]), (0, 0, 0, 0, 0))


def _find(ids: list[int], part: list[int], start: int) -> int:
    for i in range(start, len(ids) - len(part) + 1):
        if ids[i : i + len(part)] == part:
            return i
    raise DataError(
        f"the tokenizer writes a text differently when it stands alone: {part} is not in {ids}."
    )


def _types(
    types: list[int], start: int, end: int, other: int, stop: int
) -> tuple[int, int, int, int, int]:
    """The segment of each of the five stretches (that of its first position; 0 where it is empty)."""
    edges = ((0, start), (start, end), (end, other), (other, stop), (stop, len(types)))
    a, b, c, d, e = (types[i] if j > i else 0 for i, j in edges)
    return a, b, c, d, e
