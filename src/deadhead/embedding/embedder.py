"""The modules of a folder of sentence-transformers behind its transformer, as one function.

`modules.json` lists them in order: pooling, then dense layers and normalisation. A folder with any
other module is refused with the name of that module, since its embeddings would be wrong.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads.model_files import (
    ENCODER,
    KNOWN_MODULES,
    MODULES,
    SAVE_AGAIN,
    is_sentence_encoder,
    modules_of,
    source_of,
    unknown_modules,
)

TRANSFORMER = "sentence_*_config.json"  # also named after RoBERTa and others
TOKENIZER = "tokenizer_config.json"
OLD_MODES = {  # how older folders name what they pool, in the order in which it is concatenated
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
LAYER = {  # fields of a dense layer or a normalisation, and the values that are understood
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}
LENGTH = "model_max_length"
LONGEST = 10**6  # tokens; tokenizers that know no limit name a larger number
LEAST = 1e-9  # tokens, so that a text without any has an embedding of zeros


def _at(tokens: Tensor, positions: Tensor) -> Tensor:
    return tokens.gather(1, positions[:, None, None].expand(-1, 1, tokens.shape[-1]))[:, 0]


def _cls(tokens: Tensor, mask: Tensor) -> Tensor:
    return _at(tokens, mask.to(torch.int).argmax(1))


def _last(tokens: Tensor, mask: Tensor) -> Tensor:
    behind = mask.to(torch.int).flip(1).argmax(1)
    return _at(tokens * mask[..., None], mask.shape[1] - 1 - behind)


def _max(tokens: Tensor, mask: Tensor) -> Tensor:
    return tokens.masked_fill(~mask[..., None], -torch.inf).amax(1)


def _sum(tokens: Tensor, mask: Tensor, power: float) -> Tensor:
    rows = mask[..., None].to(tokens)
    return (tokens * rows).sum(1) / rows.sum(1).clamp(min=LEAST) ** power


def _weighted(tokens: Tensor, mask: Tensor) -> Tensor:
    weights = (mask.cumsum(1) * mask)[..., None].to(tokens)
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=LEAST)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "max": _max,
    "mean": lambda tokens, mask: _sum(tokens, mask, 1.0),
    "mean_sqrt_len_tokens": lambda tokens, mask: _sum(tokens, mask, 0.5),
    "weightedmean": _weighted,
    "lasttoken": _last,
}


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """What turns the last hidden states of a model into embeddings.

    modes: what is pooled, names of POOLINGS, and concatenated.
    layers: what follows: dense layers and normalisation, in order.
    max_length: tokens of a text that the encoder reads; None for those of the model.
    prompts: what is put before texts, by their role; "" is the default role.
    lower_case: whether texts are put into lower case, whatever the tokenizer does.
    """

    modes: tuple[str, ...]
    layers: tuple[Callable[[Tensor], Tensor], ...] = ()
    max_length: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    lower_case: bool = False

    def __str__(self) -> str:
        parts = [f"pooling {' and '.join(self.modes)}"]
        dense = sum(isinstance(layer, nn.Module) for layer in self.layers)
        parts += [f"{dense} dense layer{'s' if dense > 1 else ''}"] if dense else []
        parts += ["normalised"] if nn.functional.normalize in self.layers else []
        parts += [f"texts of at most {self.max_length} tokens"] if self.max_length else []
        named = [(f"{role} prompt".strip(), text) for role, text in self.prompts.items()]
        parts += [f"{name} {text!r}" for name, text in named if text]
        return ", ".join(parts)

    def text(self, text: str, role: str = "") -> str:
        """The text as the tokenizer gets it; as in sentence-transformers, a role has no default."""
        text = self.prompts.get(role, "") + text
        return text.lower() if self.lower_case else text

    def __call__(self, outputs: Any, batch: Mapping[str, Any]) -> Tensor:
        """The embeddings of a batch, from what the model returned for it."""
        tokens = getattr(outputs, "last_hidden_state", None)
        if tokens is None:
            raise UnsupportedModel(
                f"expected last hidden states to pool, got {type(outputs).__name__}.",
                "load the encoder without a task layer: auto=AutoModel (--auto-class AutoModel)",
            )
        if tokens.dtype in (torch.float16, torch.bfloat16):
            tokens = tokens.float()
        mask = batch.get("attention_mask")
        if mask is None:
            mask = torch.ones(tokens.shape[:2], device=tokens.device)
        pooled = [POOLINGS[mode](tokens, mask.to(tokens.device).bool()) for mode in self.modes]
        embeddings = torch.cat(pooled, -1)
        for layer in self.layers:
            if isinstance(layer, nn.Module) and not _fits(layer, embeddings):
                layer.to(embeddings)
            embeddings = layer(embeddings)
        return embeddings


def _fits(layer: nn.Module, embeddings: Tensor) -> bool:
    """Whether a layer has the precision and the device; moving it cannot be exported."""
    weight = next(layer.parameters())
    return (weight.dtype, weight.device) == (embeddings.dtype, embeddings.device)


def embedder_of(model: Any) -> Embedder | None:
    """The embedder of the folder that a model was loaded from; None if it is no such folder."""
    folder = source_of(model)
    return None if folder is None else read_embedder(folder)


def read_embedder(folder: str | Path) -> Embedder | None:
    """The embedder of a folder of sentence-transformers; None if it is no sentence encoder.

    Cross-encoders and sparse encoders, which have a modules.json too, are none.
    """
    folder = Path(folder)
    if not is_sentence_encoder(folder):
        return None
    modules = modules_of(folder)
    places, kinds = [folder / path for path in modules], [*modules.values()]
    if not all(kinds) or not kinds:
        raise _damaged(folder / MODULES)
    if kinds[:2] != ["Transformer", "Pooling"] or places[0] != folder:
        raise unknown_modules(folder)
    layers: list[Callable[[Tensor], Tensor]] = []
    for kind, place in list(zip(kinds, places, strict=True))[2:]:
        if kind == "Dense":
            layers.append(_dense(place))
        elif kind == "Normalize":
            _check_layer(place)
            layers.append(nn.functional.normalize)
        elif kind != "Dropout":  # which does nothing outside of training
            raise UnsupportedModel(
                f"the module {kind} in {folder / MODULES} is not understood.", KNOWN_MODULES
            )
    prompts = read_prompts(folder)
    default = prompts.get(_read_optional(folder / ENCODER).get("default_prompt_name"))
    reading: Mapping[str, Any] = {}
    for file in sorted(folder.glob(TRANSFORMER)):
        reading = _read(file, dict)
    # sentence-transformers 6 leaves the length to the tokenizer
    limits = (reading.get("max_seq_length"), _read_optional(folder / TOKENIZER).get(LENGTH))
    length = next((n for n in limits if isinstance(n, int) and 0 < n < LONGEST), None)
    return Embedder(
        modes=_modes(places[1] / "config.json"),
        layers=tuple(layers),
        max_length=length,
        prompts={
            "": default or "",
            **{str(name): text or "" for name, text in prompts.items() if name},
        },
        lower_case=bool(reading.get("do_lower_case")),
    )


def read_prompts(folder: str | Path) -> Mapping[str | None, str]:
    """What a folder of sentence-transformers puts before texts, by name; maybe nothing."""
    prompts: Mapping[str | None, str] = _read_optional(Path(folder) / ENCODER).get("prompts") or {}
    return prompts


def _modes(file: Path) -> tuple[str, ...]:
    config = _read(file, dict)
    named = config.get("pooling_mode")
    if named is None:
        flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
        named = [mode for key, mode in OLD_MODES.items() if key in flags]
        named = [*named, *(key for key in flags if key not in OLD_MODES)] or "mean"
    modes = tuple(named) if isinstance(named, list) else (named,)
    unknown = next((mode for mode in modes or [named] if str(mode) not in POOLINGS), None)
    if unknown is not None:
        raise UnsupportedModel(
            f"the pooling {unknown!r} in {file} is not understood.",
            f"deadhead knows {', '.join(POOLINGS)}",
        )
    if config.get("include_prompt") is False:
        raise UnsupportedModel(
            f"{file} pools without the tokens of the prompt, which is not understood.",
            "set include_prompt to true if texts have no prompt",
        )
    return modes


def _check_layer(folder: Path) -> Mapping[str, Any]:
    """The config of a layer; raises an error if it works on something else than embeddings."""
    config = _read_optional(folder / "config.json")
    for name, expected in LAYER.items():
        if config.get(name) not in (None, expected):
            raise UnsupportedModel(f"{name}={config[name]!r} in {folder} is not understood.")
    return config


def _dense(folder: Path) -> nn.Module:
    """A dense layer with its activation, from safetensors."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = _check_layer(folder)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise FolderError(
            f"{folder} has no model.safetensors, and nothing else is read.", SAVE_AGAIN
        )
    try:
        tensors = {
            name.removeprefix("linear."): t.float() for name, t in load_file(weights).items()
        }
        sizes, has_bias = (config["in_features"], config["out_features"]), config.get("bias", True)
        linear = nn.Linear(*sizes, bias=bool(has_bias))
        linear.load_state_dict(tensors)
    except (SafetensorError, LookupError, RuntimeError, TypeError) as problem:
        raise _damaged(weights) from problem
    path = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = getattr(nn, path.rpartition(".")[2], None) if path.startswith("torch.") else None
    if not isinstance(activation, type):
        raise UnsupportedModel(f"the activation {path!r} in {folder} is not understood.")
    return nn.Sequential(linear, activation()).requires_grad_(False)


def _read(file: Path, kind: type) -> Any:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, kind):
        raise _damaged(file)
    return content


def _read_optional(file: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = _read(file, dict) if file.exists() else {}
    return content


def _damaged(file: Path) -> FolderError:
    return FolderError(f"{file} is missing or damaged.", "save or download the folder again")
