"""The tokenizer of a model as GGUF metadata.

llama.cpp knows how to split text before merging by name (`tokenizer.ggml.pre`), not by definition.
So the definition of a tokenizer is looked up in `SPLITS`. A wrong name would give other tokens
without any error, so an unknown definition is refused.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, UnsupportedModel

from .file import read_file

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # kinds of tokens
SPACE = "▁"  # how SentencePiece writes a space

_SUFFIXES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
)
_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_LLAMA3 = rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}{{1,3}}|{_MARKS}{_END}"
_GPT4O = rf"{_CASES % (f'{_SUFFIXES}?', f'{_SUFFIXES}?')}\p{{N}}{{1,3}}|{_SLASHES}{_END}"
# How a tokenizer splits text, step by step, and whether whole words skip the merges -> its name.
SPLITS: Mapping[tuple[tuple[str, ...], bool], str] = {
    (("words",), False): "gpt-2",
    (("digits", "words"), False): "smollm",
    ((_LLAMA3,), True): "llama-bpe",
    ((_LLAMA3,), False): "smaug-bpe",
    ((rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}|{_MARKS}{_END}",), False): "qwen2",
    (
        (
            rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}|"
            rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{_END}",
        ),
        False,
    ): "qwen35",
    ((rf"{_CASES % ('', '')}\p{{N}}|{_SLASHES}{_END}",), True): "tekken",
    ((_GPT4O,), False): "gpt-4o",
}
HINT = "name a GGUF file of the original model: --tokenizer-from ORIGINAL.gguf"


def metadata(tokenizer: Any, config: Any, size: int) -> dict[str, Any]:
    """The metadata of a tokenizer for a model with embeddings for `size` tokens."""
    if not getattr(tokenizer, "is_fast", False):
        raise UnsupportedModel(
            "GGUF needs the tokenizer of the model, and it has none (tokenizer.json).", HINT
        )
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    model = definition["model"]
    if model["type"] != "BPE":
        raise _unknown(f"of the type {model['type']}")
    words = tokenizer.get_vocab()
    if len(words) > size or max(words.values()) >= size:
        raise DataError(
            f"the tokenizer has {len(words)} tokens, and the model embeddings for {size}.",
            "save the model with its own tokenizer",
        )
    names = {number: word for word, number in words.items()}
    tokens = [names.get(number, f"[UNUSED{number}]") for number in range(size)]
    if model.get("byte_fallback"):
        special = _sentencepiece(definition, tokens)
    else:
        special = _byte_level(definition)
    added = {token["id"]: token for token in definition["added_tokens"]}
    kinds = [_kind(n, names, added, model) for n in range(size)]
    template = getattr(tokenizer, "chat_template", None)
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        **special,
        **_special_tokens(tokenizer, config),
        **({"tokenizer.chat_template": template} if isinstance(template, str) else {}),
    }


def _kind(number: int, names: Mapping[int, str], added: Mapping[int, Any], model: Any) -> int:
    if number not in names:
        return UNUSED
    if names[number] == model.get("unk_token"):
        return UNKNOWN
    if number in added:
        return CONTROL if added[number]["special"] else USER_DEFINED
    word = names[number]
    is_byte = model.get("byte_fallback") and word.startswith("<0x") and len(word) == 6
    return BYTE if is_byte else NORMAL


def _byte_level(definition: Any) -> dict[str, Any]:
    """BPE over bytes, as GPT-2 and most later models have it."""
    model, normalizer = definition["model"], definition["normalizer"]
    if normalizer is not None and normalizer != {"type": "NFC"}:
        raise _unknown(f"with the normalizer {normalizer['type']}")
    steps = tuple(_steps(definition["pre_tokenizer"]))
    name = SPLITS.get((steps, bool(model.get("ignore_merges"))))
    if name is None:
        raise _unknown(f"that splits text by {' then '.join(steps) or 'nothing'}")
    if not model["merges"]:
        raise _unknown("without merges")  # llama.cpp needs them, and a file has no empty list
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.merges": [" ".join(_pair(merge)) for merge in model["merges"]],
    }


def _steps(definition: Any) -> Iterable[str]:
    """How a tokenizer splits text: regular expressions, and "words" and "digits"."""
    parts = [definition]
    if definition is not None and definition["type"] == "Sequence":
        parts = definition["pretokenizers"]
    for part in parts:
        kind = None if part is None else part["type"]
        if kind == "ByteLevel" and not part["add_prefix_space"]:
            if part.get("use_regex", True):
                yield "words"
        elif kind == "Digits" and part["individual_digits"]:
            yield "digits"
        elif kind == "Split" and part["behavior"] in ("Isolated", "Removed"):
            pattern = part["pattern"].get("Regex")
            isolated = (part["behavior"] == "Removed") == part["invert"]
            yield pattern if pattern and isolated else json.dumps(part)
        else:
            yield json.dumps(part)


def _pair(merge: Any) -> list[str]:
    return merge.split(" ") if isinstance(merge, str) else list(merge)


def _sentencepiece(definition: Any, tokens: list[str]) -> dict[str, Any]:
    """BPE over characters with a token for each byte, as Llama 2 and Mistral have it.

    llama.cpp merges the pair whose result has the highest score. So a score is the place of the
    first merge that gives the token, and every way to form a token must be a merge at that place.
    """
    merges = [_pair(merge) for merge in definition["model"]["merges"]]
    places: dict[str, int] = {}
    for place, (left, right) in enumerate(merges):
        places.setdefault(left + right, place)
    ranks = [places[left + right] for left, right in merges]
    pairs, words = {(left, right) for left, right in merges}, set(tokens)
    complete = all(
        (word[:n], word[n:]) in pairs
        for word in places
        for n in range(1, len(word))
        if word[:n] in words and word[n:] in words
    )
    if ranks != sorted(ranks) or not complete:
        raise _unknown("whose merges are not those of SentencePiece")
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.scores": [-float(places.get(word, len(merges))) for word in tokens],
        "tokenizer.ggml.add_space_prefix": _adds_space(definition),
    }


def _adds_space(definition: Any) -> bool:
    """Whether a SentencePiece tokenizer puts a space before a text."""
    normalizer, split = definition["normalizer"], definition["pre_tokenizer"]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prepend = {"type": "Prepend", "prepend": SPACE}
    steps = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    if split is None and steps in ([prepend, replace], [replace]):
        return len(steps) == 2
    metaspace = {"type": "Metaspace", "replacement": SPACE, "split": False}
    if split is not None and not steps and metaspace.items() <= split.items():
        return bool(split["prepend_scheme"] != "never")
    raise _unknown("with spaces that are not written as SentencePiece does")


def _special_tokens(tokenizer: Any, config: Any) -> dict[str, Any]:
    """The ids of special tokens, and which of them the tokenizer adds itself."""
    eos = tokenizer.eos_token_id
    ends = getattr(config, "eos_token_id", None)
    ends = ends if isinstance(ends, list) else [ends]
    others = [end for end in ends if end is not None and end != eos]
    ids = {
        "bos": tokenizer.bos_token_id,
        "eos": eos if eos is not None else next(iter(others), None),
        "eot": others[0] if eos is not None and others else None,
        "unknown": tokenizer.unk_token_id,
        "padding": tokenizer.pad_token_id,
    }
    text = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    before, after = (whole[: len(whole) - len(text)], whole[len(text) :])
    starts = bool(whole) and whole != text and whole[0] == ids["bos"] and before != []
    finishes = bool(whole) and whole != text and whole[-1] == ids["eos"] and after != []
    if len(whole) != len(text) + starts + finishes:
        raise _unknown(f"that adds other tokens than a first and a last one, {whole} for {text}")
    numbers = {f"tokenizer.ggml.{k}_token_id": v for k, v in ids.items() if v is not None}
    flags = {"tokenizer.ggml.add_bos_token": starts, "tokenizer.ggml.add_eos_token": finishes}
    return numbers | flags


def copied(file: Path, size: int, own: Any = None) -> dict[str, Any]:
    """The tokenizer of another GGUF file, for a model with embeddings for `size` tokens.

    own: the tokenizer of the model, if it has one, which must have the same words.
    """
    fields = read_file(file).fields
    values = {k: field.contents() for k, field in fields.items() if k.startswith("tokenizer.")}
    tokens = values.get("tokenizer.ggml.tokens")
    if tokens is None or len(tokens) != size:
        raise DataError(
            f"{file} has a tokenizer of {len(tokens or ())} tokens, and the model embeddings for "
            f"{size}.",
            "name a GGUF file of the original model",
        )
    added = {} if own is None else own.get_added_vocab()  # whose spelling may be another one
    for word, number in ({} if own is None else own.get_vocab()).items():
        if word in added:
            continue
        if number >= size:
            raise DataError(
                f"the tokenizer of the model has the token {number}, {word!r}, and the model "
                f"embeddings for {size}.",
                "save the model with its own tokenizer",
            )
        if tokens[number] != word:
            raise DataError(
                f"{file} has the tokenizer of another model: its token {number} is "
                f"{tokens[number]!r}, and that of the model {word!r}.",
                "name a GGUF file of the original model",
            )
    return values


def _unknown(reason: str) -> UnsupportedModel:
    known = ", ".join(sorted({*SPLITS.values(), "llama (SentencePiece)"}))
    return UnsupportedModel(f"llama.cpp has no known tokenizer {reason}. Known are: {known}.", HINT)
