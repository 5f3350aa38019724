"""A small config made from the default one by dividing its widths, for `tiny.py`.

The sizes of a default config fit each other, also those that no list of names can know. Divided by
one number they still do.
"""

from __future__ import annotations

import re
from typing import Any

LAYERS, VOCABULARY, POSITIONS, EXPERTS, GRID = 2, 251, 256, 4, 4
IMAGE_TOKEN = 250
STAGES = ("depths", "out_features", "out_indices")
IMAGE_SIDES, LARGEST_SIDE = ("image_size", "img_size"), 256
LAYER_COUNT = re.compile(r"(^|_)(layers?|depth|blocks)$|^n_layer$|num_.*layers")
WIDTH = re.compile(
    r"hidden|embed|dim(s|ension)?$|intermediate|channels|d_model|d_ff|d_kv|ffn|width|inner|filter"
    r"|_size$|mrope_section|n_embd|state_size|sizes$"
)
NO_WIDTH = re.compile(
    r"^num_(?!channels$)|vocab|image|patch|kernel|window|token|layers|group|stride|merge|pool|batch"
    r"|in_chan|num_channels|act|mel|position|chunk|codebook_size|sampl|audio_channels|fps|factor"
)


def scaled(config_class: type, divisor: int) -> Any:
    """The default config with fewer layers and tokens, and with its widths divided."""
    default: Any = config_class()
    patch = _patch(default.to_dict())
    values = _scaled(default.to_dict(), divisor, patch)
    return type(default).from_dict(values)


def _patch(values: dict[str, Any]) -> int | None:
    """The side of a patch, of the config or of one inside of it."""
    for name, value in values.items():
        if isinstance(value, dict) and (inner := _patch(value)):
            return inner
        if name == "patch_size" and isinstance(value, int):
            return value
    return None


def _scaled(values: dict[str, Any], divisor: int, patch: int | None) -> dict[str, Any]:
    # where single layers or stages have names, their number stays
    staged = any(values.get(name) for name in STAGES)
    counts = {v for n, v in values.items() if _is_count(n, v) and v > LAYERS and not staged}
    small: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            small[name] = _scaled(value, divisor, patch)
            continue
        if isinstance(value, list) and len(value) in counts:
            kinds = [*dict.fromkeys(value)] if all(isinstance(v, str) for v in value) else value
            value = (kinds * LAYERS)[:LAYERS]
        if isinstance(value, list | tuple):
            small[name] = [_number(name, item, divisor, patch) for item in value]
        elif staged and (_is_count(name, value) or name in IMAGE_SIDES):
            small[name] = min(value, LARGEST_SIDE) if name in IMAGE_SIDES else value
        else:
            small[name] = _number(name, value, divisor, patch)
    return small


def _is_count(name: str, value: Any) -> bool:
    return type(value) is int and LAYER_COUNT.search(name) is not None


def _number(name: str, value: Any, divisor: int, patch: int | None) -> Any:
    """A value of a config, made small by the name it goes by."""
    if value is None and name in ("image_token_index", "image_token_id"):
        return IMAGE_TOKEN
    if type(value) is not int:
        return value
    if _is_count(name, value) or name == "depths":
        return min(value, LAYERS)
    if name.endswith(("vocab_size", "token_id", "token_index", "token_ids")):
        return VOCABULARY if name.endswith("size") else value % VOCABULARY
    if "position_embeddings" in name or name in ("n_positions", "n_ctx"):
        return min(value, POSITIONS)
    if re.search(r"num_(local_|routed_)?experts$|n_routed_experts", name):
        return min(value, EXPERTS)
    if re.search(r"experts_per_tok|top_?k", name):
        return min(value, EXPERTS // 2)
    if name in IMAGE_SIDES:
        return GRID * patch if patch else 64
    if WIDTH.search(name) and not NO_WIDTH.search(name) and value % divisor == 0:
        return value // divisor
    return value
