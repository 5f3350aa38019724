"""Remove whole transformer layers, and change the config to that of a model with fewer layers.

What a config says about its layers is found by trying: a number or a list in it belongs to a list
of layers if the class builds the smaller model from the changed config, module by module. A model
for which no config does so keeps all its layers, and the error says what differs.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.layout import LayerKey

from .discover import find_every_site
from .hooks import check_no_gates, forget_compiled
from .layers import layers_around
from .model_class import outline
from .prune import check_changeable, note_in_config
from .unpacked import drop_mark

# the names of numbers, of lists and of attributes that follow the number of layers
COUNT = re.compile(r"layer|block|depth")
LIST = re.compile(r"layer|block|types|heads|sizes?$|pattern|rope")
NUMBER = re.compile(r"(layer|block).*(idx|index|id|num|number)$")
# the names of numbers that say how many of the first layers are of one kind
FIRST = re.compile(r"^(max_window|num_dense)_layers$|^first_k_dense_replace$")
ONCE = "relative_attention_bias"  # what the first layer of T5 has alone, for all of them
PATTERNS = "attention_types"  # in GPT-Neo: kinds of layers, and how often each follows
OVERRIDES = "per_layer_config"  # settings of single layers by their number, as in Gemma 4
STAGES = "stage_names"  # of a backbone for images: the input, and the output of each layer
BY_NUMBER = "scale_attn_by_inverse_layer_idx"  # in GPT-2
IN_TRAINING = "drop_path"  # modules that skip layers at random, but only in training
WITH_MASK = "has_sliding_layers"  # whether a model makes a mask for them, which may be unused
TRIED = 13  # a number of layers that no config has by itself
PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Stack:
    """A list of transformer layers that run one after the other."""

    block: str
    path: str
    layers: tuple[nn.Module, ...]

    @property
    def keys(self) -> tuple[LayerKey, ...]:
        return tuple((self.block, number) for number in range(len(self.layers)))


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """The lists of layers of a model by their block; an error where the layers are not lists."""
    sites = find_every_site(model)
    around = layers_around(model, sites)
    stacks: dict[str, Stack] = {}
    for path in dict.fromkeys(layer.stack for layer in around):
        inside = [site.block for site in sites if site.path.startswith(f"{path}.")]
        # a layer of a decoder also has attention over the encoder
        block = Counter(name for name in inside if name != "cross" or {*inside} == {"cross"})
        name = block.most_common(1)[0][0]
        if name in stacks:
            raise UnsupportedModel(
                f"expected one list of layers for the {name}, got {stacks[name].path} and {path}.",
                "remove heads or neurons instead of layers",
            )
        layers = tuple(layer.module for layer in around if layer.stack == path)
        stacks[name] = Stack(name, path, layers)
    if not stacks or any(site.shared_by > 1 for site in sites):
        raise UnsupportedModel(
            f"expected layers with weights of their own, got {type(model).__name__}, "
            + ("whose layers share weights." if stacks else "whose layers are in no list."),
            "remove heads or neurons instead of layers",
        )
    return stacks


def remove_layers(model: nn.Module, layers: Iterable[LayerKey | str | int]) -> nn.Module:
    """Remove whole transformer layers for good, and return the same model with fewer layers.

    layers: their numbers, counted from 0; with the block where there are several: "decoder.3".

    The layers behind a removed one move up, also in the config, of which the model gets a copy.
    The result is an ordinary model of its class. Nothing is repaired: `shrink` does that too.

    >>> remove_layers(model, [3, 7])
    """
    removal(model, layers)()
    return model


def removal(model: nn.Module, layers: Iterable[LayerKey | str | int]) -> Callable[[], None]:
    """Check that these layers can be removed; returns the function that removes them."""
    check_changeable(model)
    check_no_gates(model, "remove layers")
    stacks = stacks_of(model)
    removed = checked_layers(stacks, layers)
    kept = _kept(stacks, removed)
    smaller = fewer_layers(model, stacks, kept)

    def apply() -> None:
        if not removed:
            return
        _take_out(model, stacks, kept)
        if smaller is not None:
            configs = dict(smaller.named_modules())
            for path, module in model.named_modules():
                if module.__dict__.get("config") is not None and path in configs:
                    module.config = configs[path].__dict__.get("config", module.config)
            if getattr(getattr(model, "config", None), "deadhead", None):
                note_in_config(model, find_every_site(model))  # it numbers layers
        drop_mark(model)
        forget_compiled()

    return apply


def checked_layers(
    stacks: Mapping[str, Stack], layers: Iterable[LayerKey | str | int]
) -> tuple[LayerKey, ...]:
    """These layers in their order; an error for one that is missing or double, or for all."""
    named = [_named(stacks, layer) for layer in layers]
    for key, count in Counter(named).items():
        if count > 1:
            raise HeadError(
                f"expected each layer once, got {text(key)} {count} times.", "name it once"
            )
    for stack in stacks.values():
        if {*stack.keys} <= {*named}:
            raise HeadError(
                f"expected a layer that stays in the {stack.block}, got all {len(stack.layers)}.",
                "keep at least one layer",
            )
    return tuple(key for stack in stacks.values() for key in stack.keys if key in named)


def _named(stacks: Mapping[str, Stack], layer: LayerKey | str | int) -> LayerKey:
    every = [key for stack in stacks.values() for key in stack.keys]
    if isinstance(layer, tuple):
        key = layer
    else:
        block, _, number = str(layer).strip().rpartition(".")
        block = block or (next(iter(stacks)) if len(stacks) == 1 else "")
        key = (block, int(number)) if number.isdecimal() and len(number) < 10 else (block, -1)
    if key not in every:
        shape = " and ".join(
            f"{s.block}.0 to {s.block}.{len(s.layers) - 1}" for s in stacks.values()
        )
        raise HeadError(
            f"expected a layer of the model ({shape}), got {layer!r}.",
            "write for instance "
            + (f"{every[-1][1]}" if len(stacks) == 1 else f'"{text(every[-1])}"'),
        )
    return key


def text(key: LayerKey) -> str:
    """A layer as people write it, such as `decoder.3`."""
    return f"{key[0]}.{key[1]}"


def _kept(stacks: Mapping[str, Stack], removed: Collection[LayerKey]) -> dict[str, list[int]]:
    """The numbers of the layers that stay, by the path of their list."""
    return {
        stack.path: [number for block, number in stack.keys if (block, number) not in removed]
        for stack in stacks.values()
    }


def _take_out(
    model: nn.Module, stacks: Mapping[str, Stack], kept: Mapping[str, Sequence[int]]
) -> None:
    """Leave only these layers in the lists of a model, and number them from 0 again."""
    for stack in stacks.values():
        numbers = kept[stack.path]
        layers = model.get_submodule(stack.path)
        members = list(layers.children())
        _move_once(members[0], members[numbers[0]])
        layers._modules = {str(place): members[number] for place, number in enumerate(numbers)}
        for place, number in enumerate(numbers):
            for module in members[number].modules():
                for name, value in vars(module).items():
                    if NUMBER.search(name) and type(value) is int and value == number:
                        setattr(module, name, place)
        owner = model.get_submodule(stack.path.rpartition(".")[0])
        for name, value in vars(owner).items():
            if COUNT.search(name) and type(value) is int and value == len(members):
                setattr(owner, name, len(numbers))


def _move_once(first: nn.Module, new_first: nn.Module) -> None:
    """Give a new first layer what the old one has alone."""
    if first is new_first:
        return
    modules = dict(new_first.named_modules())
    for path, module in first.named_modules():
        new = modules.get(path)
        if ONCE in module._modules and new is not None and ONCE not in new._modules:
            setattr(new, ONCE, getattr(module, ONCE))
            setattr(new, f"has_{ONCE}", True)


def fewer_layers(
    model: Any, stacks: Mapping[str, Stack], kept: Mapping[str, Sequence[int]]
) -> nn.Module | None:
    """The model with only these layers as its class builds it from a config, without weights.

    None for a model without a config. Raises an error if no config describes it.
    """
    if getattr(model, "config", None) is None:
        return None
    if getattr(model.config, BY_NUMBER, False):
        raise _refusal(model, f"{BY_NUMBER} makes a layer depend on its number")
    expected = _built(model, model.config)
    if expected is None or [*_lengths(expected, stacks).values()] != [
        len(stack.layers) for stack in stacks.values()
    ]:
        raise _refusal(model, "its class does not build it from its config")
    _take_out(expected, stacks, kept)
    config = copy.deepcopy(model.config)
    for stack in stacks.values():
        if len(kept[stack.path]) < len(stack.layers):
            _change(model, config, stacks, stack, kept[stack.path])
    reread, built = _built(model, config, reread=True), _built(model, config)
    for smaller in (reread, built):
        if (difference := _difference(smaller, expected)) is not None:
            raise _refusal(model, difference)
    return built


def _refusal(model: Any, why: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"no config of {type(model).__name__} describes it without these layers: {why}.",
        "remove other layers, or heads and neurons instead",
    )


def _built(model: Any, config: Any, *, reread: bool = False) -> nn.Module | None:
    """The model that its class builds from this config, without memory for its weights.

    reread: from the config as it is read from a file.
    """
    try:
        if reread:
            config = type(config).from_dict(config.to_dict())
        built: nn.Module = outline(model, config)
    except Exception:  # the code of a model raises what it likes for a config that it cannot use
        return None
    return built


def _lengths(model: nn.Module | None, stacks: Mapping[str, Stack]) -> dict[str, int]:
    modules = {} if model is None else dict(model.named_modules())
    return {s.path: len(modules[s.path]._modules) for s in stacks.values() if s.path in modules}


def _change(
    model: Any, config: Any, stacks: Mapping[str, Stack], stack: Stack, numbers: Sequence[int]
) -> None:
    """Change the config so that its class builds this stack with only these layers."""
    before, length = _lengths(_built(model, config), stacks), len(stack.layers)
    wish = {**before, stack.path: len(numbers)}
    for part, fields in _counts(config, length):
        old, settings = dict(vars(part)), part.to_dict().get(OVERRIDES)
        for name in fields:
            setattr(part, name, len(numbers))
        for name, value in part.to_dict().items():
            if isinstance(value, list | tuple) and LIST.search(name) and len(value) == length:
                setattr(part, name, type(value)(value[number] for number in numbers))
            elif type(value) is int and FIRST.search(name) and 0 < value <= length:
                setattr(part, name, sum(number < value for number in numbers))
        if isinstance(getattr(part, PATTERNS, None), list):
            kinds = [kind for every, times in old[PATTERNS] for kind in every * times]
            setattr(part, PATTERNS, [[[kinds[number] for number in numbers], 1]])
        if settings:
            own = {int(number): value for number, value in settings.items()}
            kept = {place: own[n] for place, n in enumerate(numbers) if n in own}
            setattr(part, OVERRIDES, kept)
        if isinstance(getattr(part, STAGES, None), list):
            part.stage_names = old[STAGES][: len(numbers) + 1]
            ends = {i % (length + 1) for i in part.out_indices}
            part.out_indices = sorted({sum(number < end for number in numbers) for end in ends})
        if _lengths(_built(model, config), stacks) == wish:
            return
        vars(part).update(old)
    raise _refusal(model, f"no number in its config is that of the layers of {stack.path}")


def _counts(config: Any, length: int) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Fields of a config, or of a part of it, that may be the number of layers of a list.

    Some configs hold the number twice: BART's has that of the encoder as `num_hidden_layers` too.
    """
    for part in chain((config,), (v for v in vars(config).values() if hasattr(v, "to_dict"))):
        stored = part.to_dict()
        names = [
            n for n, v in stored.items() if COUNT.search(n) and v == length and n in vars(part)
        ]
        for name in names:
            yield part, (name, *(other for other in _followers(type(part), name) if other in names))
        for name in names:
            yield part, (name,)


def _followers(cls: Any, name: str) -> list[str]:
    """The fields that a config class sets from this one."""
    try:
        return [n for n, v in vars(cls(**{name: TRIED})).items() if v == TRIED and n != name]
    except Exception:  # a config raises what it likes for sizes that do not go together
        return []


def _difference(built: nn.Module | None, expected: nn.Module) -> str | None:
    """Where a model differs from what is expected: in its modules, shapes and plain attributes."""
    if built is None:
        return "its class refuses the smaller config"
    modules, others = dict(built.named_modules()), dict(expected.named_modules())
    for path in sorted(modules.keys() ^ others.keys()):
        return f"{path} would be {'new' if path in modules else 'missing'}"
    for path, module in modules.items():
        other = others[path]
        if path.endswith(IN_TRAINING):
            continue
        if type(module) is not type(other):
            return f"{path} would be {type(module).__name__} instead of {type(other).__name__}"
        if _shapes(module._parameters) != _shapes(other._parameters):
            return f"{path} would have other shapes"
        # a table may be needed by some kinds of layers alone
        new_tables, tables = _shapes(module._buffers), _shapes(other._buffers)
        if any(new_tables[name] != tables[name] for name in new_tables.keys() & tables.keys()):
            return f"{path} would have other shapes"
        for name in (vars(module).keys() & vars(other).keys()) - {WITH_MASK}:
            new, value = vars(module)[name], vars(other)[name]
            if type(value) in PLAIN and type(new) in PLAIN and value != new:
                return f"{path}.{name} would be {new} instead of {value}"
    return None


def _shapes(tensors: Mapping[str, torch.Tensor | None]) -> dict[str, Any]:
    return {name: None if tensor is None else tensor.shape for name, tensor in tensors.items()}
