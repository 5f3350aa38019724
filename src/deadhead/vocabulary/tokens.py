"""Which tokens some texts need, and the tokenizer that has only these. Imports no torch.

The tokens of a text need others: BPE reaches a token by merges, and their results must be tokens
too. Text whose tokens are all kept is then encoded as before, in every kind of tokenizer:

- WordPiece takes the longest token that fits. It is kept, so it is still the longest.
- BPE applies the first merge that fits. The merges inside of a token do not depend on what is
  around it, so those that build the token from its characters are all that it needs.
- Unigram takes the best sum of scores. Fewer tokens give no better sum. The score of an unknown
  character depends on the lowest score of all, so one token with that score is kept.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, UnsupportedModel
from deadhead.files.hub import quiet
from deadhead.forward import embedding_rows

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
FILE = "tokenizer.json"
CHUNK = 1000  # texts that are encoded at once
ROUNDED = 8  # a good number of embeddings for hardware is a multiple of this
SPARE = 1024  # embeddings that no token uses, of models rounded up to a good number
SHARE = 40  # the same, of large vocabularies: one in this many. DeepSeek-V2 has one in 43
SOME = 128  # the same, of models that were not rounded: DeBERTa-v3 has 99
BELONGS = "save the tokenizer that belongs to the model into its folder"


def check_tokenizer(model: Any, tokenizer: Any, owner: str) -> None:
    """Raise an error if the tokenizer belongs to another model.

    It has more sub-words than the model has embeddings, or far fewer. Some fewer are usual, the
    more where embeddings were rounded up. Added tokens do not count as too many, unless they are
    added to each text: some models were never trained with theirs.

    A tokenizer of another model with the same number of tokens is not detected.
    """
    if (rows := embedding_rows(model)) is None:
        return
    if tokenizer.vocab_size > rows:
        message = f"the tokenizer of {owner} has {tokenizer.vocab_size:,} sub-words"
        raise DataError(f"{message} and the model knows {rows:,}.", BELONGS)
    most = SOME if rows % ROUNDED else max(SPARE, rows // SHARE)
    if rows - len(tokenizer) > most:
        message = f"the tokenizer of {owner} has only {len(tokenizer):,} tokens"
        hint = f"{BELONGS}, or drop the embeddings of no token: model.resize_token_embeddings"
        raise DataError(f"{message} and the model knows {rows:,}.", hint)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    around = [] if backend is None else backend.encode("").ids
    if beyond := [number for number in around if number >= rows]:
        token = tokenizer.convert_ids_to_tokens(beyond[0])
        message = f"the tokenizer of {owner} adds {token} to each text"
        raise DataError(f"{message}, which is no token of the model.", BELONGS)


class Tokens:
    """The tokens of a fast tokenizer, by its definition in tokenizer.json."""

    def __init__(self, tokenizer: Any):
        if not getattr(tokenizer, "is_fast", False):
            raise UnsupportedModel(
                f"expected a fast tokenizer, got {type(tokenizer).__name__}.",
                f"save one with a {FILE}, such as AutoTokenizer.from_pretrained gives for most "
                "models, into the folder",
            )
        self.tokenizer = tokenizer
        self.definition = json.loads(tokenizer.backend_tokenizer.to_str())
        self.model = self.definition["model"]
        self.backend = _plain(tokenizer.backend_tokenizer)
        self.ids: dict[str, int] = self.backend.get_vocab()
        self.names = {number: token for token, number in self.ids.items()}
        self.added = {token["id"] for token in self.definition["added_tokens"]}
        pairs = (m.split(" ") if isinstance(m, str) else m for m in self.model.get("merges", ()))
        self.merges = {tuple(pair): rank for rank, pair in enumerate(pairs)}

    @property
    def unknown(self) -> str | None:
        """The token for what the tokenizer does not know."""
        number = self.model.get("unk_id")
        return self.model.get("unk_token") if number is None else self.model["vocab"][number][0]

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        return [encoding.ids for encoding in _encode(self.backend, texts)]

    def hidden(self, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> set[int]:
        """The tokens that WordPiece finds in a word before it stops and calls it unknown.

        Without them it would find others, and might not stop.
        """
        if self.model["type"] != "WordPiece":
            return set()
        number = self.ids.get(self.unknown or "")
        texts = [text for text, ids in zip(texts, encoded, strict=True) if number in ids]
        encodings = self.backend.encode_batch(texts)
        words = {
            text[slice(*offsets)]
            for text, encoding in zip(texts, encodings, strict=True)
            for token, offsets in zip(encoding.tokens, encoding.offsets, strict=True)
            if token == self.unknown
        }
        normal = self.backend.normalizer
        ids: set[int] = set()
        for word in words if normal is None else map(normal.normalize_str, words):
            for end in range(len(word) - 1, 0, -1):
                pieces = self.backend.model.tokenize(word[:end])
                if all(piece.value != self.unknown for piece in pieces):
                    ids.update(piece.id for piece in pieces)
                    break
        return ids

    def needed(self, used: set[int]) -> set[int]:
        """The tokens that a tokenizer needs beside those that texts use."""
        words = {self.names[number] for number in used - self.added}
        prefix = self.model.get("continuing_subword_prefix") or ""
        suffix = self.suffix
        characters = {c for word in words for c in word.removeprefix(prefix).removesuffix(suffix)}
        splits = [self.definition["normalizer"], self.definition["pre_tokenizer"]]
        if '"ByteLevel"' in json.dumps(splits):
            from tokenizers.pre_tokenizers import ByteLevel

            characters.update(ByteLevel.alphabet())
        others = {form for c in characters for form in (c, prefix + c, c + suffix)}
        others.update(filter(BYTE.fullmatch, self.ids))
        others.update(piece for word in words for piece in self.merges_of(word))
        if self.model["type"] == "Unigram":
            others.add(min(self.model["vocab"], key=lambda entry: entry[1])[0])
        others.add(self.unknown or "")
        special = {*self.added, *self.tokenizer.all_special_ids, *_ids_in(self.definition)}
        return used | special | {self.ids[token] for token in others & self.ids.keys()}

    @property
    def suffix(self) -> str:
        """What BPE writes behind the last character of a word; mostly nothing."""
        return self.model.get("end_of_word_suffix") or ""

    def merges_of(self, word: str) -> list[str]:
        """The results of the merges that build a token from its characters, in order."""
        symbols = [*word.removesuffix(self.suffix)]
        if self.suffix and word.endswith(self.suffix) and symbols:
            symbols[-1] += self.suffix
        pieces = []
        ranks = self.merges
        while fits := [(ranks[p], n) for n, p in enumerate(pairwise(symbols)) if p in ranks]:
            at = min(fits)[1]
            symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
            pieces.append(symbols[at])
        return pieces if symbols == [word] else []

    def trimmed(self, kept: Sequence[int]) -> Any:
        """The tokenizer with these tokens alone, numbered in this order."""
        new = {number: place for place, number in enumerate(kept)}
        model, vocabulary = {**self.model}, self.model["vocab"]
        if isinstance(vocabulary, list):
            model["vocab"] = [entry for n, entry in enumerate(vocabulary) if n in new]
            if model["unk_id"] is not None:
                model["unk_id"] = new[model["unk_id"]]
        else:
            model["vocab"] = {token: new[n] for token, n in vocabulary.items() if n in new}
        if "merges" in model:
            has = model["vocab"].keys()
            model["merges"] = [p for p in self.merges if {*p, "".join(p)} <= has]
        definition = {**self.definition, "model": model}
        definition["added_tokens"] = [
            {**token, "id": new[token["id"]]} for token in self.definition["added_tokens"]
        ]
        definition = json.loads(json.dumps(definition))
        _ids_in(definition, new)
        trimmed = _reloaded(self.tokenizer, json.dumps(definition))
        if trimmed.backend_tokenizer.get_vocab() != {self.names[n]: new[n] for n in kept}:
            name = type(self.tokenizer).__name__
            raise UnsupportedModel(f"{name} gives its tokens other numbers than its {FILE}.")
        return trimmed


def check_same(
    tokens: Tokens, trimmed: Any, texts: Sequence[str], encoded: list[list[int]]
) -> None:
    """Raise an error if the trimmed tokenizer encodes one of these texts otherwise."""
    names = trimmed.convert_ids_to_tokens(range(len(trimmed)))
    backend = _plain(trimmed.backend_tokenizer)
    for text, old, new in zip(texts, encoded, _encode(backend, texts), strict=True):
        if [tokens.names[n] for n in old] != [names[n] for n in new.ids]:
            name = type(tokens.tokenizer).__name__
            raise UnsupportedModel(
                f"the vocabulary of {name} cannot be trimmed: it would encode {text!r:.60} "
                "otherwise.",
                "leave the vocabulary whole",
            )


def _plain(backend: Any) -> Any:
    """A copy that neither cuts nor pads texts."""
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _encode(backend: Any, texts: Sequence[str]) -> Iterator[Any]:
    for begin in range(0, len(texts), CHUNK):
        yield from backend.encode_batch_fast(texts[begin : begin + CHUNK])


def _ids_in(definition: dict[str, Any], new: dict[int, int] | None = None) -> set[int]:
    """The numbers of tokens in the post-processor and the padding; `new` replaces them."""
    ids: set[int] = set()

    def number(old: int) -> int:
        ids.add(old)
        return old if new is None else new[old]

    parts = [definition["post_processor"] or {}]
    while parts:
        part = parts.pop()
        parts += part.get("processors", ())
        for name in {"sep", "cls"} & part.keys():
            part[name] = [part[name][0], number(part[name][1])]
        for special in part.get("special_tokens", {}).values():
            special["ids"] = [*map(number, special["ids"])]
    if padding := definition["padding"]:
        padding["pad_id"] = number(padding["pad_id"])
    return ids


def _reloaded(tokenizer: Any, definition: str) -> Any:
    """The tokenizer as transformers reads it from a folder with this tokenizer.json."""
    with tempfile.TemporaryDirectory() as name, quiet():
        folder = Path(name)
        tokenizer.save_pretrained(folder)
        (folder / FILE).write_text(definition, encoding="utf-8")
        return type(tokenizer).from_pretrained(folder)
