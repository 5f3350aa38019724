"""Trim the vocabulary of a model: the rows of its embeddings and output layers, and its configs."""

import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import VOCABULARIES, embedding_rows
from deadhead.heads.model_class import outline
from deadhead.heads.prune import check_changeable

from .tokens import BELONGS, Tokens, check_same, check_tokenizer

SPECIAL = re.compile(r"_token_(id|index)s?$")  # fields of configs with numbers of tokens
LISTS = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids")  # tokens never written
REFUSED = ("forced_decoder_ids", "force_words_ids", "sequence_bias", "lang_to_id")
SIZES = (*VOCABULARIES, "vocab_size_per_layer_input")
HELD_OUT = 10  # every tenth text shows how many others would change
MOST_UNKNOWN = 0.5  # share of the tokens
ROLES = ("pad", "bos", "eos", "cls", "sep", "mask")  # special tokens that configs may name


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """What `trim_vocabulary` kept."""

    tokenizer: Any  # the new one
    kept: tuple[int, ...]  # the old numbers of the tokens, in their new order
    tokens: tuple[int, int]  # rows of the embeddings, before and after
    # The share of held-out texts that the tokens of the other texts would encode otherwise: what
    # to expect of new texts of the same kind. None for fewer than ten texts.
    changed: float | None
    # The share of the tokens of the texts that the tokenizer does not know. Known tokens without a
    # letter or digit do not count.
    unknown: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {"tokens": list(self.tokens), "changed": self.changed, "unknown": self.unknown}

    def apply(self, model: Any) -> None:
        """Cut a model of this shape."""
        rows, size = self.tokens
        new = {number: place for place, number in enumerate(self.kept)}
        tensors, numbers = _changes(model, rows, size, new)
        replaced: dict[int, Any] = {}
        for name, axis in tensors.items():
            path, _, leaf = name.rpartition(".")
            owner, old = model.get_submodule(path), model.get_parameter_or_buffer(name)
            if id(old) not in replaced:
                index = torch.tensor(self.kept[:size], device=old.device)
                rest = old.detach().index_select(axis, index)
                if isinstance(old, nn.Parameter):
                    rest = nn.Parameter(rest, requires_grad=old.requires_grad)
                replaced[id(old)] = old, rest
            setattr(owner, leaf, replaced[id(old)][1])
        for (path, name), value in numbers.items():
            setattr(model.get_submodule(path), name, value)
        for fields in _configs(model):
            _renumber(fields, rows, size, new)


def trim_vocabulary(
    model: Any, tokenizer: Any, texts: Iterable[str], *, always: Iterable[str] = ()
) -> Trimmed:
    """Remove the tokens that these texts do not need, from the model in place; returns the rest.

    Kept are the tokens of the texts, special and added tokens, bytes, the characters of the texts
    and what merges need. A text of kept tokens is encoded as before and has the same logits of
    these tokens. Any other text still encodes, to smaller pieces or unknown tokens.

    Args:
        tokenizer: a fast one, which stays as it is; save the model with `.tokenizer` of the result.
        always: further texts, such as prompts, that do not count in the share of changed texts.
    """
    check_changeable(model)
    trimmed = plan_trim(model, tokenizer, texts, always=always)
    trimmed.apply(model)
    return trimmed


def plan_trim(
    model: Any, tokenizer: Any, texts: Iterable[str], *, always: Iterable[str] = ()
) -> Trimmed:
    """Choose what `trim_vocabulary` keeps, and check that the model can lose the rest.

    The model stays as it is, and needs no weights.
    """
    check_tokenizer(model, tokenizer, type(model).__name__)
    tokens, texts = Tokens(tokenizer), [text for text in texts if text.strip()]
    _check_roles(model, tokens)
    if not texts:
        raise DataError("expected texts to keep the tokens of, got none.", "give some texts")
    further = [*always, *_chat(tokenizer)]
    encoded = tokens.encoded(texts)
    unknown = _share_unknown(tokens, encoded)
    around = tokens.encoded(further)
    extra = {n for ids in around for n in ids} | _special_ids(model, tokens)
    extra |= tokens.hidden([*texts, *further], [*encoded, *around])
    kept = sorted(tokens.needed({n for ids in encoded for n in ids} | extra))
    tokenizer = tokens.trimmed(kept)
    check_same(tokens, tokenizer, texts, encoded)
    changed = None
    if len(texts) >= HELD_OUT:
        others = (ids for n, ids in enumerate(encoded) if n % HELD_OUT)
        known = tokens.needed({n for ids in others for n in ids} | extra)
        held_out = encoded[::HELD_OUT]
        changed = sum(not known.issuperset(ids) for ids in held_out) / len(held_out)
    rows = embedding_rows(model) or 0
    size = sum(number < rows for number in kept)  # added tokens may have no rows
    _changes(model, rows, size, {number: place for place, number in enumerate(kept)})
    return Trimmed(
        tokenizer=tokenizer, kept=tuple(kept), tokens=(rows, size), changed=changed,
        unknown=unknown,
    )  # fmt: skip


def _share_unknown(tokens: Tokens, encoded: list[list[int]]) -> float:
    """The share of unknown tokens; an error if the tokenizer does not know what it reads.

    Known tokens without a letter or digit do not count: Unigram writes one for each blank, and
    most tokenizers know the punctuation of languages that they cannot read.
    """
    unknown = tokens.ids.get(tokens.unknown or "")
    written = [n for ids in encoded for n in ids if n == unknown or n not in tokens.added]
    words = {n for n in {*written} if n == unknown or any(map(str.isalnum, tokens.names[n]))}
    counted = [n for n in written if n in words]
    share = counted.count(unknown) / len(counted) if counted and unknown is not None else 0
    if not written or share > MOST_UNKNOWN:
        raise DataError(
            f"the tokenizer does not know the texts: {share:.0%} of their tokens are unknown.",
            "give texts in a language and script of the model",
        )
    return share


def _check_roles(model: Any, tokens: Tokens) -> None:
    """Raise an error if special tokens are not those of the model.

    The config may name another special token of the tokenizer: some models end a text with a
    token of their own. A word as a special token is a sign of another model's tokenizer.
    """
    tokenizer, rows = tokens.tokenizer, embedding_rows(model) or 0
    special = {*tokenizer.all_special_ids, *tokens.added}
    for role in ROLES:
        number = getattr(tokenizer, f"{role}_token_id", None)
        if number is None:
            continue
        if number >= rows:
            token = getattr(tokenizer, f"{role}_token")
            raise DataError(
                f"the tokenizer has {role}_token = {token!r} with the number {number:,}, and the "
                f"model has only {rows:,} embeddings.",
                f"correct {role}_token in tokenizer_config.json, or add embeddings to the model: "
                "model.resize_token_embeddings",
            )
        name = f"{role}_token_id"
        for fields in _configs(model):
            value = fields.get(name)
            if type(value) is int and value in tokens.names and value not in {number, *special}:
                raise DataError(
                    f"config has {name} = {value}, which is the word {tokens.names[value]!r} of "
                    f"the tokenizer, whose {role}_token has the number {number}.",
                    f"{BELONGS}, or correct {name} in config.json or generation_config.json",
                )


def _chat(tokenizer: Any) -> list[str]:
    """The words that a chat template puts around messages, in a text; none without a template."""
    for roles in (("system", "user", "assistant"), ("user", "assistant")):
        messages = [{"role": role, "content": "."} for role in roles]
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            return [text, tokenizer.apply_chat_template(messages[:-1], tokenize=False)]
        except Exception:  # there is none, or it raises what it likes for roles it does not have
            continue
    return []


def _configs(model: Any) -> list[dict[str, Any]]:
    """The fields of all configs of a model and of its parts, each once."""
    owners = [getattr(module, "config", None) for module in model.modules()]
    owners.append(getattr(model, "generation_config", None))
    configs = {id(fields): fields for owner in owners for fields in _fields(owner)}
    return [*configs.values()]


def _fields(owner: Any) -> Iterator[dict[str, Any]]:
    fields = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
    yield fields
    for name, value in fields.items():
        if hasattr(value, "model_type"):
            yield from _fields(value)
        elif name == "task_specific_params":
            for options in (value or {}).values():
                yield from _fields(options)


def _special_ids(model: Any, tokens: Tokens) -> set[int]:
    """The tokens that the configs name, and those whose numbers positions are counted from."""
    ids: set[int] = set()
    for fields in _configs(model):
        for name, value in fields.items():
            if name in REFUSED and value:
                raise UnsupportedModel(
                    f"the generation config has {name}, whose tokens cannot be renumbered.",
                    f"delete {name} there, or leave the vocabulary whole",
                )
            numbers = value if isinstance(value, list) else [value]
            for number in numbers if SPECIAL.search(name) else ():
                if type(number) is int and number >= 0 and number not in tokens.names:
                    raise DataError(
                        f"config has {name} = {number}, which is no token of the tokenizer.",
                        f"correct {name} in config.json or generation_config.json",
                    )
                ids |= {number} if type(number) is int and number >= 0 else set()
    for path, module in model.named_modules():
        first = getattr(module, "padding_idx", None)
        if "position" in path and type(first) is int:  # RoBERTa counts from the padding token
            ids.update(n for n in range(first) if n in tokens.names)
    return ids


def _renumber(fields: dict[str, Any], rows: int, size: int, new: dict[int, int]) -> None:
    for name, value in [*fields.items()]:
        if name in SIZES and value == rows:
            fields[name] = size
        elif name in LISTS and value:
            fields[name] = _mapped([v for v in value if _known(v, new)], new)
        elif SPECIAL.search(name):
            fields[name] = _mapped(value, new)


def _known(value: Any, new: dict[int, int]) -> bool:
    return all(_known(v, new) for v in value) if isinstance(value, list) else value in new


def _mapped(value: Any, new: dict[int, int]) -> Any:
    if isinstance(value, list):
        return [_mapped(v, new) for v in value]
    return new.get(value, value)


def _changes(
    model: Any, rows: int, size: int, new: dict[int, int]
) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """What the class builds otherwise for the smaller vocabulary: tensors and numbers of modules.

    Tensors come with the axis that has an entry for each token. All else that changes is refused.
    """
    config = copy.deepcopy(model.config)
    for fields in _fields(config):
        _check_sizes(fields, rows)
        _renumber(fields, rows, size, new)
    whole, small = outline(model, model.config), outline(model, config)
    (before, after), tensors = map(_shapes, (whole, small)), {}
    now = _shapes(model)
    for name in sorted(before.keys() | after.keys()):
        old, changed = before.get(name, ()), after.get(name, ())
        if old != changed:
            axes = [n for n, pair in enumerate(zip(old, changed, strict=False)) if len({*pair}) > 1]
            ours = now.get(name, ())
            if (
                len(old) != len(changed)
                or [(old[n], changed[n]) for n in axes] != [(rows, size)]
                or ours != old
            ):
                raise UnsupportedModel(
                    f"the vocabulary of {type(model).__name__} cannot be trimmed: {name} is not "
                    "understood.",
                    "leave the vocabulary whole",
                )
            tensors[name] = axes[0]
    if rows != size and not any(name.endswith("weight") for name in tensors):
        raise UnsupportedModel(
            f"the vocabulary of {type(model).__name__} cannot be trimmed: its config has no size "
            f"that gives its {rows:,} embeddings."
        )
    numbers = {
        (path, name): value
        for path, module in small.named_modules()
        for name, value in vars(module).items()
        if type(value) is int and vars(whole.get_submodule(path)).get(name) != value
    }
    return tensors, numbers


def _check_sizes(fields: dict[str, Any], rows: int) -> None:
    for name in SIZES:
        value = fields.get(name)
        if type(value) is int and value != rows:
            raise UnsupportedModel(
                f"expected one vocabulary of {rows:,} tokens, got {name} = {value:,} in config.",
                "leave the vocabulary whole",
            )


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    tensors = [*model.named_parameters(remove_duplicate=False)]
    tensors += model.named_buffers(remove_duplicate=False)
    return {name: tuple(tensor.shape) for name, tensor in tensors}
