"""How transformers loads a pruned model where deadhead is not installed.

A model that keeps the same number of heads and neurons in every layer is a smaller model of its
class, if the class has a config for it. The config is written only if the class builds exactly the
modules of the pruned model from it. For all others, `save` writes the loader `load_pruned.py`
beside the weights, with a list of how the modules of the pruned model differ from those of the
whole one.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from . import load_pruned
from .discover import find_every_site
from .load_pruned import PLAN, AddBias, PickInput, PickRows, Spread
from .model_class import outline
from .model_files import MODULES
from .names import COUNTS, KEY_COUNTS, NEURON_COUNTS
from .output_bias import FILLED
from .prune import FUSIONS, RECORD
from .saved_config import LATEST, UNPRUNED, restore
from .site import MARK, Site

WIDTH = "head_dim"
DEFAULT_NEURONS = "n_inner"  # in GPT-2 and others; None means four times the width
GUESSES = 3  # fields of a config, at most
OTHER_STACK = ("encoder_", "decoder_")  # fields of the other stack: for a decoder, for an encoder
LOADER = Path(load_pruned.__file__)
ENCODER_LOADER = LOADER.with_name("load_encoder.py")  # needs a package that deadhead does not
ENCODER = "load_encoder.PrunedTransformer"
PLAIN = "sentence_transformers.models.Transformer"  # a place that all versions know
THEIRS = re.compile(r"sentence_transformers\.[\w.]*\bTransformer\b")  # its place has changed

Plan = dict[str, Any]


class Loading(NamedTuple):
    """What is written besides the weights of a pruned model."""

    config: Any
    record: Mapping[str, Any]  # further keys for the record in the config
    plan: Plan | None  # for the loader; None if plain transformers loads the folder, or nothing can

    @property
    def how(self) -> str:
        """Who loads the folder: a key of `model_card.HOW`."""
        return "plain" if self.record else "compact" if self.plan is None else "loader"

    def write_loader(self, folder: Path) -> None:
        """Write what loads the model; in a folder of sentence-transformers its class too."""
        if self.plan is not None:
            (folder / LOADER.name).write_bytes(LOADER.read_bytes())
            (folder / PLAN).write_text(json.dumps(self.plan) + "\n", encoding="utf-8")
        if self.plan is None:
            use_plain_transformer(folder)
        elif ENCODER in _with_modules(folder, lambda text: THEIRS.sub(ENCODER, text)):
            (folder / ENCODER_LOADER.name).write_bytes(ENCODER_LOADER.read_bytes())


def use_plain_transformer(folder: Path) -> None:
    """Let sentence-transformers load a folder with its own class, not with that of a pruned one."""
    _with_modules(folder, lambda text: text.replace(ENCODER, PLAIN))


def _with_modules(folder: Path, change: Callable[[str], str]) -> str:
    """Change the list of modules, if there is one, and return it."""
    file = folder / MODULES
    if not file.exists():
        return ""
    text = change(file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    return text


def loading_of(model: Any, sites: list[Site]) -> Loading:
    """A config that plain transformers loads the pruned model with, or else a plan for the loader.

    The check builds the model twice or thrice without memory for its weights.
    """
    if all(len(site.kept) == site.size for site in sites):
        plan = _attempt(model, model.config)
        return Loading(model.config, {}, plan or None)  # a refit may have added biases
    for smaller, fields in smaller_configs(model, sites):
        config = _reread(smaller)
        old_sizes = {path: _field(model.config, path) for path in fields}
        if _restores(config, old_sizes, model.config) and describes(config, model):
            return Loading(config, {"format": LATEST, UNPRUNED: old_sizes}, None)
    return Loading(model.config, {}, _attempt(model, model.config))


def smaller_configs(model: Any, sites: Sequence[Site]) -> Iterator[tuple[Any, dict[str, int]]]:
    """Configs that might describe the pruned model, each with the fields that it changes.

    There are none if the layers differ.
    """
    text = model.config.get_text_config()
    paths = {id(value): f"{name}." for name, value in vars(model.config).items()}
    prefix = "" if text is model.config else paths.get(id(text))
    blocks = {site.block for site in sites if len(site.kept) < site.size}
    sites = [site for site in sites if site.block in blocks]
    if prefix is None or any(not site.kept for site in sites):
        return  # no config has layers of no heads
    stored = text.to_dict()
    for guess in range(GUESSES):
        fields: dict[str, int] = {}
        for site in sites:
            for name, value in fields_of(model.config, site, guess).items():
                if fields.setdefault(name, value) != value:
                    return  # the layers differ
        fields = {name: value for name, value in fields.items() if stored.get(name) != value}
        config = copy.deepcopy(model.config)
        try:
            for name, value in fields.items():
                setattr(config.get_text_config(), name, value)
            _reread(config)
        except Exception:  # a config raises what it likes for sizes that it does not know
            continue
        yield config, {f"{prefix}{name}": value for name, value in fields.items()}


def fields_of(config: Any, site: Site, guess: int = 0) -> dict[str, int]:
    """The fields of a config for the sizes of a layer, and what the layer has left.

    guess: the first is by their names; the others take other fields that have such a value, and
    the width of heads where a class reads it although its config does not list it (Qwen 2).
    """
    stored = config.get_text_config().to_dict()
    if site.kind == "heads":
        keys = len(site.keys_of(site.kept))
        heads = {name: len(site.kept) for name in COUNTS if name in stored}
        key_heads = {name: keys for name in KEY_COUNTS if name in stored}
        return {**heads, **key_heads, **({WIDTH: site.width} if WIDTH in stored or guess else {})}
    equal = [name for name, value in stored.items() if type(value) is int and value == site.size]
    if known := [name for name in NEURON_COUNTS if name in equal]:
        return dict.fromkeys(known, len(site.kept))
    equal = [name for name in equal if not name.startswith(OTHER_STACK[site.block == "encoder"])]
    if DEFAULT_NEURONS in stored and stored[DEFAULT_NEURONS] is None:
        equal.insert(0, DEFAULT_NEURONS)
    return dict.fromkeys(equal[min(guess, len(equal) - 1) :][:1], len(site.kept))


def _reread(config: Any) -> Any:
    """The config as transformers reads it from a file."""
    return type(config).from_dict(config.to_dict())


def _field(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = (
            config.to_dict().get(name) if name == path.split(".")[-1] else getattr(config, name)
        )
    return config


def _restores(config: Any, old_sizes: Mapping[str, Any], whole: Any) -> bool:
    """Whether these sizes give back the config of the whole model."""
    undone = copy.deepcopy(config)
    try:
        restore(undone, old_sizes)
    except ValueError:  # `load` takes no such field from a file
        return False
    return bool(undone.to_dict() == _reread(whole).to_dict())


def describes(config: Any, model: nn.Module) -> bool:
    """Whether the class of a model builds exactly its modules, shapes and numbers from a config."""
    return _attempt(model, config, exact=True) == {}


def _attempt(model: Any, config: Any, *, exact: bool = False) -> Plan | None:
    """How the modules differ from those of this config; empty if not, None if no list can say it.

    exact: floats and the shapes of buffers must be equal too. Pruning changes neither; a config
    may, as `head_dim` does where the rotary frequencies have a width of their own.
    """
    try:
        built = outline(model, config)
    except Exception:  # the code of a model raises what it likes for a config that it cannot use
        return None
    modules, wholes = dict(model.named_modules()), dict(built.named_modules())
    kinds = {path: type(module) for path, module in modules.items()}
    if kinds != {path: type(module) for path, module in wholes.items()}:
        return None
    if exact and _buffer_shapes(model) != _buffer_shapes(built):
        return None
    numbers = (int, float) if exact else (int,)
    shapes = {name: list(p.shape) for name, p in model.named_parameters()}
    old_shapes = {name: list(p.shape) for name, p in built.named_parameters()}
    if not shapes.keys() >= old_shapes.keys():
        return None
    changed_ids = {id(p) for n, p in model.named_parameters() if old_shapes.get(n) != shapes[n]}
    plan: Plan = {
        "shapes": {
            name: list(p.shape)
            for name, p in model.named_parameters(remove_duplicate=False)  # also where it is tied
            if id(p) in changed_ids
        },
        "numbers": {
            path: changed
            for path, module in modules.items()
            if (changed := _changed_numbers(module, wholes[path], numbers))
        },
        **changed_code(modules),
    }
    return plan if any(plan.values()) else {}


def _buffer_shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: buffer.shape for name, buffer in model.named_buffers()}


def _changed_numbers(
    module: nn.Module, whole: nn.Module, types: tuple[type, ...]
) -> dict[str, int | float]:
    old = vars(whole)
    return {
        name: value
        for name, value in vars(module).items()
        if type(value) in types and type(old.get(name)) in types and old[name] != value
    }


def changed_code(modules: Mapping[str, nn.Module]) -> Plan:
    """What pruning put in front of, behind or in place of the code of modules."""
    paths = {id(module): path for path, module in modules.items()}
    code: Plan = {"silent": {}, "bias_alone": [], "spread": {}, "pick": {}, "pick_input": {}}
    code["add_bias"] = {}
    for path, module in modules.items():
        # accelerate puts a function of its own around the forward pass
        forward = vars(module).get("_old_forward", vars(module).get("forward"))
        if isinstance(forward, partial) and forward.func is load_pruned.silent_forward:
            code["silent"][path] = list(forward.args[1:])
        elif isinstance(forward, partial) and forward.func is load_pruned.bias_alone:
            code["bias_alone"].append(path)
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
            if isinstance(hook, Spread):
                code["spread"][path] = [_runs(hook.index), hook.width]
            elif isinstance(hook, PickInput):
                code["pick_input"][path] = _runs(hook.index)
            elif isinstance(hook, PickRows):
                code["pick"][path] = _runs(hook.index)
            elif isinstance(hook, AddBias):
                code["add_bias"][path] = paths[id(hook.core)]
    return code


def _runs(index: torch.Tensor) -> list[list[int]]:
    """The first and the last number of each run of numbers that follow each other."""
    rows = index.tolist()
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(rows), 1) if b != a + 1)] if rows else []
    return [[rows[a], rows[b - 1]] for a, b in pairwise([*starts, len(rows)])]


def same_sizes(model: Any, sites: Sequence[Site]) -> list[list[Site]]:
    """The layers that must keep the same number of units for an ordinary model.

    These are the layers of one block, or of all blocks that share a field of the config, as the
    encoder and the decoder of T5 do.
    """
    groups: dict[tuple[str, ...], list[Site]] = {}
    for site in sites:
        names = fields_of(model.config, site) if getattr(model, "config", None) else {}
        groups.setdefault((site.kind, *(names or (site.block,))), []).append(site)
    return [*groups.values()]


def make_ordinary(model: Any) -> dict[str, Any]:
    """Make a pruned model an ordinary one, with the sizes that are left in its config.

    Returns these fields of the config; none if the class has no config for such layers, and the
    model stays as it is. The check builds the class from the config without memory for weights, and
    compares all modules and shapes. Heads and neurons are numbered from 0 again.
    """
    if getattr(model, "config", None) is None:
        return {}
    for config, fields in smaller_configs(model, find_every_site(model)):
        for name in (RECORD, FUSIONS):
            vars(config).pop(name, None)
        reread = type(config).from_dict(config.to_dict())
        if fields and describes(config, model) and describes(reread, model):
            _take_config(model, config)
            return fields
    return {}


def _take_config(model: Any, config: Any) -> None:
    """Give the modules of a model this config, and forget what was removed."""
    built = outline(model, config)
    configs = {path: vars(module).get("config") for path, module in built.named_modules()}
    for path, module in model.named_modules():
        if vars(module).get("config") is not None:
            module.config = configs[path]
        for name in (MARK, FILLED):
            vars(module).pop(name, None)
