"""Text to sub-word numbers, for every tokenizer: WordPiece, SentencePiece, byte-level BPE.

Equal words and equal texts are cut once. Special tokens are not requested row by row: a `Frame` is
read off one probe and put around the pieces afterwards.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from deadhead.errors import DataError

BARE = {"add_special_tokens": False, "verbose": False}
PROBE = "Don't stop, Zürich! 日本語 עברית 3.14"


@dataclass(frozen=True)
class Frame:
    """The special tokens around one text or two, and the segment of each stretch."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]  # before, first text, between, second text, after

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def put(self, first: Sequence[int], second: Sequence[int] = ()) -> list[int]:
        return [*self.before, *first, *self.between, *second, *self.after]

    def segments(self, first: int, second: int = 0) -> list[int]:
        lengths = (len(self.before), first, len(self.between), second, len(self.after))
        stretches = ([kind] * n for kind, n in zip(self.types, lengths, strict=True))
        return list(chain.from_iterable(stretches))


class Window(NamedTuple):
    """A stretch of a row in sub-words, with its labels."""

    row: int
    ids: list[int]
    labels: list[int]
    types: Sequence[int] = ()
    words: Sequence[int] = ()  # the number of the word on its first piece, else -1
    predicted: tuple[int, int] = (0, 0)  # of a text: the words and the bytes that it predicts
    # for each position, the characters of the context where its token begins and ends, or -1
    offsets: Sequence[tuple[int, int]] = ()


def knows_words(tokenizer: Any) -> bool:
    """Whether a tokenizer has words.

    If no tokenizer was saved, transformers builds one of special tokens and perhaps a blank.
    """
    return bool(tokenizer.get_vocab().keys() - {"▁", *tokenizer.all_special_tokens})


class Pieces:
    """A tokenizer seen as a function from texts or words to sub-word numbers."""

    def __init__(self, tokenizer: Any):
        if not knows_words(tokenizer):
            save = "AutoTokenizer.from_pretrained(ORIGINAL).save_pretrained(DIR)"
            message = f"{tokenizer.name_or_path} has no tokenizer; the empty one that transformers "
            hint = f"save the tokenizer into the model's folder: {save}"
            raise DataError(f"{message}builds instead knows no word.", hint)
        self.tokenizer = tokenizer
        self.backend: Any = getattr(tokenizer, "backend_tokenizer", None)

    @cached_property
    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads(self.backend.to_str()) if self.backend else {}
        state = ("truncation", "padding")  # these do not decide how it cuts
        return {key: value for key, value in spec.items() if key not in state}

    @cached_property
    def identity(self) -> str:
        """A hash of everything that decides how this tokenizer cuts."""
        probe = self.tokenizer([PROBE], add_special_tokens=True, verbose=False)["input_ids"]
        vocabulary = sorted(self.tokenizer.get_vocab().items()) if not self._spec else []
        known = self._spec or [type(self.tokenizer).__name__, vocabulary]
        content = json.dumps([known, probe, self.typed], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def typed(self) -> bool:
        """Whether the model reads segments."""
        return "token_type_ids" in self.tokenizer.model_input_names

    @property
    def pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.tokenizer.eos_token_id or 0)

    @cached_property
    def _blank_before(self) -> bool:
        """Byte-level BPE that writes the blank into the word, but puts none before the first."""
        rule = json.dumps(self._spec.get("pre_tokenizer"))
        return '"type": "ByteLevel", "add_prefix_space": false' in rule

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the pieces of texts, without special tokens."""
        distinct = list(dict.fromkeys(texts))  # premises come three times each
        pieces = dict(zip(distinct, self._whole(distinct), strict=True))
        return [pieces[text] for text in texts]

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the pieces of texts in the target language, without special tokens."""
        return list(self.tokenizer(text_target=list(texts), **BARE)["input_ids"])

    def words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Return the pieces of each word of each sentence; some words have none."""
        keys = [
            [f" {word}" if i and self._blank_before else word for i, word in enumerate(words)]
            for words in sentences
        ]
        distinct = list(dict.fromkeys(chain.from_iterable(keys)))
        if self.backend is None or self._blank_before:
            cut = self._whole(distinct)
        else:
            options = {"is_pretokenized": True, "add_special_tokens": False}
            encodings = self._cutter.encode_batch([[word] for word in distinct], **options)
            cut = [list(encoding.ids) for encoding in encodings]
        pieces = dict(zip(distinct, cut, strict=True))
        return [[pieces[key] for key in words] for words in keys]

    @cached_property
    def _cutter(self) -> Any:
        """A copy of the backend without truncation and padding, so the user's is not changed."""
        copy = type(self.backend).from_str(self.backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        if self.backend is None:
            return list(self.tokenizer(list(texts), **BARE)["input_ids"])
        encodings = self._cutter.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(encoding.ids) for encoding in encodings]

    def with_ends(self, text: str) -> tuple[list[int], list[int] | None]:
        """Return the pieces of a text and the character where each ends.

        A tokenizer of Python code does not say where; the ends are then None.
        """
        if self.backend is None:
            return self._whole([text])[0], None
        encoding = self._cutter.encode(text, add_special_tokens=False)
        return list(encoding.ids), [end for _, end in encoding.offsets]

    def with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the pieces of texts, with the characters where each begins and ends."""
        if self.backend is None:
            name = type(self.tokenizer).__name__
            message = f"question answering needs the place of each token in its text, which {name} "
            raise DataError(f"{message}does not say.", "save a fast tokenizer with the model")
        distinct = list(dict.fromkeys(texts))  # a context has several questions
        encodings = self._cutter.encode_batch(distinct, add_special_tokens=False)
        cut = [(list(encoding.ids), list(encoding.offsets)) for encoding in encodings]
        pieces = dict(zip(distinct, cut, strict=True))
        return [pieces[text] for text in texts]

    def frame(self, pair: bool = False) -> Frame:
        """Return the frame of one text or of two, read off a probe."""
        first, second = self._whole(["a", "b"])
        texts = ("a", "b") if pair else ("a",)
        probe = self.tokenizer(*texts, verbose=False)
        ids = list(probe["input_ids"])
        start = _find(ids, first, 0)
        end = other = stop = start + len(first)
        if pair:
            other = _find(ids, second, end)
            stop = other + len(second)
        types = list(probe.get("token_type_ids", [0] * len(ids)))
        edges = ((0, start), (start, end), (end, other), (other, stop), (stop, len(ids)))
        # the segment of a stretch is that of its first position; 0 if it is empty
        a, b, c, d, e = (types[i] if j > i else 0 for i, j in edges)
        return Frame(tuple(ids[:start]), tuple(ids[end:other]), tuple(ids[stop:]), (a, b, c, d, e))

    def target_frame(self) -> Frame:
        """Return the frame of a text in the target language."""
        ids = list(self.tokenizer(text_target="a", verbose=False)["input_ids"])
        (bare,) = self.targets(["a"])
        start = _find(ids, bare, 0)
        return Frame(tuple(ids[:start]), (), tuple(ids[start + len(bare) :]), (0, 0, 0, 0, 0))


def _find(ids: list[int], part: list[int], start: int) -> int:
    for i in range(start, len(ids) - len(part) + 1):
        if ids[i : i + len(part)] == part:
            return i
    message = "the tokenizer writes a text differently when it is alone"
    raise DataError(f"{message}: {part} is not in {ids}.")
