"""What the config of a saved model says: its kind, and which heads were removed from it."""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.files.hub import check_name, quiet, similar_folder
from deadhead.files.model_folder import TRAINING
from deadhead.layout import Head, Kind, LayerKey, SiteKey, numbers_of

from . import names
from .config_file import check_config_file, keep_own_attention
from .model_files import MODULES, SHARD, check_hub, check_shards, fetch_modules, unknown_modules
from .prune import (
    BIASES,
    FILLED_BIASES,
    FILLED_FEED_FORWARDS,
    NOT_PLAIN,
    RECORD,
    REMOVED_NEURONS,
    SHARES,
    allow_plain_loading,
)

# what transformers and its libraries raise for a damaged folder
# fmt: off
FAULTS = (
    SafetensorError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, AssertionError, StrictDataclassError, struct.error,
)
# fmt: on
WIDEST = 2**24  # heads or neurons of a layer, or width of a head
# The key of a config that names the file of the weights. transformers stops at a name that is no
# safetensors file, and prints it. Without it, transformers would drop added biases and, with
# ignore_mismatched_sizes=True, start the smaller matrices from random numbers.
WEIGHTS = "transformers_weights"
LATEST = 2  # format of a record: 2 has the next key
UNPRUNED = "unpruned"  # the sizes of the unpruned model, if the fields of the config are smaller
SIZES = (*names.COUNTS, *names.KEY_COUNTS, *names.NEURON_COUNTS, "head_dim")
ANY_BLOCK = "*"  # transformers 4 wrote no block: it pruned models of one block only

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The removed heads and neurons of a saved model, as its config lists them."""

    folder: str | Path
    removed: tuple[Head, ...]
    neurons: Mapping[LayerKey, tuple[int, ...]] = field(default_factory=dict)
    shares: Mapping[LayerKey, int] = field(default_factory=dict)  # heads per copied key/value head
    dropped: frozenset[LayerKey] = frozenset()  # with an output bias that was dropped
    filled: frozenset[SiteKey] = frozenset()  # with a bias for the output of removed units
    ours: bool = False  # written by deadhead
    padded: bool = False  # with the shapes of the unpruned model

    @property
    def is_pruned(self) -> bool:
        return bool(self.removed or self.neurons or self.filled)

    @property
    def needed(self) -> tuple[Kind, ...]:
        """The kinds of layers that the model must have."""
        filled = {kind for kind, _, _ in self.filled}
        heads: tuple[Kind, ...] = ("heads",) if self.removed or "heads" in filled else ()
        return (*heads, "neurons") if self.neurons or "neurons" in filled else heads


def read_config(folder: str | Path, where: Mapping[str, Any]) -> Any:
    """The config of a folder or hub model. where: arguments of `from_pretrained` that locate it."""
    from transformers import AutoConfig

    home = Path(folder) / where.get("subfolder", "")
    check_name(folder)
    check_hub(folder, where)
    check_config_file(folder, where)
    check_shards(home)
    if Path(folder).is_dir() and not (home / "config.json").exists():
        hint = "name a folder with a saved model"
        if (home / MODULES).exists():
            raise unknown_modules(home)
        if (home / TRAINING).is_dir():
            hint = "its training was interrupted: repeat the `deadhead finetune` command to resume"
        raise FolderError(f"{folder} has no config.json.", hint)
    try:
        with quiet():  # without trust_remote_code=False transformers would ask the user
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False, **where)
        keep_own_attention(config, folder)
        allow_plain_loading(config)
        if isinstance(ours := getattr(config, RECORD, None), dict):
            restore(config, ours.pop(UNPRUNED, {}))
    except FAULTS as problem:
        message = f"expected a model that can be loaded, got {folder}: {first_line(problem)}"
        similar = None if Path(folder).is_dir() else similar_folder(Path(folder))
        hint = similar or "name a folder or a hub name that exists"
        raise FolderError(message, hint) from problem
    _refuse_quantised(config, folder)
    _check_weights_file(config, folder)
    fetch_modules(folder, **where)
    return config


def _refuse_quantised(config: Any, folder: str | Path) -> None:
    """Refuse packed weights: their rows are no heads, and a package of their own unpacks them."""
    if how := getattr(config, "quantization_config", None):
        name = how.get("quant_method", "unknown method")
        raise UnsupportedModel(
            f"{folder}: expected plain weights, got a quantised model ({name}).",
            "name the model it was quantised from; prune or shrink that, then quantise the result",
        )


def _check_weights_file(config: Any, folder: str | Path) -> None:
    """Drop our own name from the config, and refuse any but safetensors of its folder."""
    weights = getattr(config, WEIGHTS, None)
    if weights == NOT_PLAIN:
        delattr(config, WEIGHTS)
    elif weights is not None and not SHARD.fullmatch(str(weights).removesuffix(".index.json")):
        raise FolderError(
            f"config.json of {folder} expects safetensors in `{WEIGHTS}`, got {weights!r}.",
            f"only safetensors are read; delete the key {WEIGHTS!r} if the folder has them",
        )


def stop_plain_loading(folder: Path, config: Any) -> None:
    """If the model of this config is pruned, let plain transformers refuse the folder.

    It does not if the config has the sizes that are left. `save_pretrained` of a config never
    writes this key, so it is added afterwards.
    """
    if not read_saved(config, folder).is_pruned or UNPRUNED in getattr(config, RECORD):
        return
    file = folder / "config.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored[WEIGHTS] = NOT_PLAIN
    # not sorted: as strings, the numbers of labels would be in another order
    file.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


def restore(config: Any, sizes: Mapping[str, Any]) -> None:
    """Give a config the sizes of the unpruned model, which `load` builds before it cuts it.

    sizes: such as {"text_config.num_attention_heads": 8}. They come from a file that anybody may
    have written, so a part must be a config of its own: any other attribute could be a class.
    """
    from transformers import PreTrainedConfig

    for path, value in sizes.items():
        part, _, name = path.rpartition(".")
        owner = vars(config).get(part) if part else config
        if not isinstance(owner, PreTrainedConfig) or not _is_size(name, value):
            raise ValueError(f"the size {path} of the unpruned model in config.json is damaged")
        setattr(owner, name, value)


def _is_size(name: str, value: Any) -> bool:
    """Whether a config may have this value for a size; None stands for the default."""
    return name in SIZES and (value is None or (type(value) is int and 0 < value <= WIDEST))


def read_saved(config: Any, folder: str | Path) -> Saved:
    """The removed heads that a config lists, in the format of deadhead or of transformers 4."""
    ours, old = getattr(config, RECORD, None), getattr(config, "pruned_heads", None)
    if ours is None:
        removed = _parsed(_heads, {ANY_BLOCK: old or {}}, folder, "removed heads")
        return Saved(folder=folder, removed=removed)
    version = _parsed(lambda record: record.get("format"), ours, folder, "removed heads")
    if type(version) is not int or not 0 < version <= LATEST:
        hint = "pip install --upgrade deadhead"
        if type(version) is not int or version < 1:
            hint = f"config.json was changed after `save`, which writes `format` into {RECORD!r}: "
            hint += "restore that file, or save the model again"
        raise FolderError(f"{folder}: expected a format up to {LATEST}, got {version!r}.", hint)

    def parsed(parse: Callable[[Any], T], key: str, what: str) -> T:
        return _parsed(parse, ours.get(key) or {}, folder, what)

    heads = parsed(_layers, FILLED_BIASES, "filled biases")
    neurons = parsed(_layers, FILLED_FEED_FORWARDS, "filled biases")
    return Saved(
        folder=folder,
        removed=_parsed(_heads, ours.get("removed"), folder, "removed heads"),
        neurons=parsed(partial(_by_layer, parse=numbers_of), REMOVED_NEURONS, "removed neurons"),
        shares=parsed(partial(_by_layer, parse=_number), SHARES, "copied key/value heads"),
        dropped=parsed(_layers, BIASES, "dropped biases"),
        filled=frozenset(
            (*(("heads", *at) for at in heads), *(("neurons", *at) for at in neurons))
        ),
        ours=True,
        padded=ours.get("form") == "padded",
    )


def _heads(listed: Any) -> tuple[Head, ...]:
    layers = _by_layer(listed, lambda heads: [*map(_number, heads)])
    return tuple(Head(*layer, index) for layer, heads in layers.items() for index in heads)


def _by_layer(listed: Any, parse: Callable[[Any], T]) -> dict[LayerKey, T]:
    return {
        (block, _number(layer)): parse(value)
        for block, layers in listed.items()
        for layer, value in layers.items()
    }


def _layers(listed: Any) -> frozenset[LayerKey]:
    return frozenset((block, _number(layer)) for block, of in listed.items() for layer in of)


def _number(value: Any) -> int:
    """A number of a record: a layer (a text where it is a key of JSON), a head or a count."""
    if not (type(value) is int or (isinstance(value, str) and value.isdecimal())):
        raise TypeError(f"expected a number, got {value!r:.40}")
    if not 0 <= (number := int(value)) <= WIDEST:
        raise ValueError(f"got {number}")
    return number


def _parsed(parse: Callable[[Any], T], listed: Any, folder: str | Path, what: str) -> T:
    try:
        return parse(listed)
    except (TypeError, ValueError, AttributeError) as problem:
        raise FolderError(
            f"{folder}: the list of {what} in config.json is damaged.", "save the folder again"
        ) from problem


def first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]
