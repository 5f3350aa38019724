"""Cut heads out of a model: the slices of q, k, v and o leave, and the module is made to agree.

A layer agrees in one of three ways. It *shrinks*, where its code takes shapes from weights or from
counts that can be set. Where its code insists on the shapes it was built with, the small projections
are *spread*: their results are laid into zeros of the old width on the way in, and picked out again
before the output projection, which is exact and still saves the weights and their products. And a
layer that has lost every head is *silent*: nothing is computed but the output bias.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from deadhead.errors import GroupError, HeadError, UnsupportedModel
from deadhead.layout import Head, HeadLayout, spans

from .discover import find_sites, layout_of
from .gates import forget_compiled, is_gated
from .output_bias import drop_bias, dropped, refuse_bias_outside
from .sites import COUNTS, KEY_COUNTS, MARK, TOTALS, Born, Part, Site, out_axis, output_inside

RECORD = "deadhead"  # the key of the removed heads in a model's config
FORMAT = 1
BIASES = "dropped_output_biases"  # in the record, where there are any: block -> layers
# Names that, where the code of an attention layer uses them, tie it to the shapes it was built with: the
# width of the model taken for the width of all heads, or a fixed number of partitions.
RIGID = frozenset({"embed_dim", "hidden_size", "dim", "d_model", "mp_num"})
# Wrappers that hold the parameters in buckets or shards of their own; FSDPModule is what fully_shard makes of a class.
PARALLEL = ("DistributedDataParallel", "FullyShardedDataParallel")
HANDED_IN = (
    "position_bias",
    "alibi",
)  # arguments that bring something for each head the layer was built with


def prune(
    model: nn.Module,
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]],
    *,
    drop_output_bias: bool = False,
) -> nn.Module:
    """Remove heads from the model for good, and hand the same model back, smaller.

    Args:
        heads: the heads to remove, or `{layer: [heads]}` for a model with one block of attention.
        drop_output_bias: a layer that loses its last head loses the bias of its output projection as well, so that
            attention adds exactly nothing there. By default the bias stays, as it does where all heads are masked.

    Heads keep the numbers they were born with. The config the model was made from is left alone: the
    model gets a copy that remembers the removed heads. An optimizer made before holds the old
    parameters; make it after pruning.
    """
    state = unfit(model)
    if state is not None:
        raise state
    if is_gated(model):
        raise UnsupportedModel(
            "the model is gated, and its gates are for the heads it has now.",
            "prune after the `with gated(...)` block",
        )
    found = find_sites(model)
    layout = layout_of(found, {})
    gone = layout.check(_named(layout, heads))
    if not gone:
        return model
    _refuse(model, found, layout, gone)
    if drop_output_bias:
        refuse_bias_outside(found)
    lost = set(gone)
    with torch.inference_mode(
        False
    ):  # weights made in that mode could never be trained or ranked again
        for site in found:
            kept = tuple(i for i in site.kept if Head(site.block, site.layer, i) not in lost)
            if kept != site.kept:
                cut(site, kept)
                if drop_output_bias and not kept:
                    drop_bias(site)
    _remember(model, found)
    forget_compiled()
    return model


def _named(
    layout: HeadLayout, heads: Iterable[Head | str] | Mapping[int, Iterable[int]]
) -> Iterable[Head | str]:
    if not isinstance(heads, Mapping):
        return heads
    if len(layout.blocks) > 1:
        raise HeadError(
            f"a dict of layers does not say which of {', '.join(layout.blocks)} is meant.",
            f'name the heads in full: prune(model, ["{layout.blocks[0]}.0.3", ...])',
        )
    return [
        Head(layout.blocks[0], layer, index)
        for layer, indices in heads.items()
        for index in _several(layer, indices)
    ]


def _several(layer: int, indices: Iterable[int]) -> Iterable[int]:
    if isinstance(indices, str) or not isinstance(indices, Iterable):
        raise HeadError(
            f"layer {layer} of the dict holds {indices!r}.",
            "give a list of heads, for instance {3: [7, 8]}",
        )
    return indices


def cut(site: Site, kept: tuple[int, ...]) -> None:
    """Leave only these heads in one attention layer."""
    before, keys_before, keys = site.kept, site.keys_of(site.kept), site.keys_of(kept)
    shrinks = _shrinks(site)
    if not shrinks:  # bare vectors stay whole where the code insists on its old shapes
        for part in site.parts.values():
            part.cut = part.cut and part.module is not site.core
    for part in site.parts.values():
        had, has = part.present(before, keys_before), part.present(kept, keys)
        if len(has) < len(had):
            _slice(part, torch.isin(had, has).nonzero().flatten())
    site.kept = kept
    setattr(
        next(iter(site.parts.values())).module, MARK, Born(site.size, site.keys, site.width, kept)
    )
    if not kept and shrinks and _speaks_the_interface(site.core):
        site.core.forward = partial(
            _silent, site.core
        )  # unlike a bound method, it can be copied and pickled
    elif shrinks and (kept or site.out is None):
        _set_counts(site, len(kept), len(keys))
        for role, norm in site.norms.items():
            _hook(norm, _Pick(_rows_of(site.parts[role], role, kept, keys)))
    else:
        _set_counts(site, site.size, site.keys)
        _spread(site, kept, keys)


def _slice(part: Part, index: torch.Tensor) -> None:
    for name, axis in part.tensors:
        old = getattr(part.module, name)
        new = old.detach().index_select(axis, index.to(old.device))
        setattr(part.module, name, nn.Parameter(new, requires_grad=old.requires_grad))
    weight = getattr(part.module, "weight", None)
    if isinstance(part.module, nn.Linear):
        part.module.out_features, part.module.in_features = weight.shape  # type: ignore[union-attr]
    elif isinstance(part.module, nn.Embedding):
        part.module.embedding_dim = weight.shape[1]  # type: ignore[union-attr]
    elif hasattr(part.module, "nf"):
        part.module.nx, part.module.nf = weight.shape  # type: ignore[union-attr]


def _rows_of(part: Part, role: str, kept: tuple[int, ...], keys: tuple[int, ...]) -> torch.Tensor:
    return part.rows[role][list(keys if role in "kv" else kept)].flatten()


def _set_counts(site: Site, heads: int, keys: int) -> None:
    """Write the numbers of heads left into the module, under whatever names it keeps them."""
    core: Any = site.core
    for names, value in ((COUNTS, heads), (KEY_COUNTS, keys)):
        for name in names:
            if isinstance(core.__dict__.get(name), int):
                setattr(core, name, value)
    for name in TOTALS:
        if isinstance(core.__dict__.get(name), int):
            setattr(core, name, heads * site.width)
    if isinstance(core.__dict__.get("kv_dim"), int):
        core.kv_dim = keys * site.width
    if isinstance(core.__dict__.get("num_key_value_groups"), int) and keys:
        core.num_key_value_groups = heads // keys


def _code_names(core: nn.Module) -> set[str]:
    """Every name the methods of a module's class use, its constructor aside."""
    names: set[str] = set()
    for name, function in vars(type(core)).items():
        code = getattr(
            inspect.unwrap(function) if callable(function) else function, "__code__", None
        )
        if code is not None and name != "__init__":
            names.update(code.co_names, code.co_varnames)
    return names


def _speaks_the_interface(core: nn.Module) -> bool:
    return "ALL_ATTENTION_FUNCTIONS" in _code_names(core)


def _shrinks(site: Site) -> bool:
    """Whether the layer's own code works with fewer heads once its counts are set."""
    core: Any = site.core
    if site.out is None:
        return True
    names, interface = _code_names(core), _speaks_the_interface(core)
    if names & RIGID or any(n in names and n not in core.__dict__ for n in (*COUNTS, *KEY_COUNTS)):
        return False
    if any(name in inspect.signature(type(core).forward).parameters for name in HANDED_IN):
        return False
    if not interface and any(part.module is core for part in site.parts.values()):
        return False  # a bare vector per head cannot be spread, should the layer be emptied
    known = {id(p.module) for p in site.parts.values()} | {id(n) for n in site.norms.values()}
    for child in core.children():
        sizes = [p.numel() for p in child.parameters()]
        if id(child) not in known and any(n != site.width for n in sizes):
            return False
    return True


def _silent(
    self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What an attention layer without heads says: its output bias (or nothing for the projection outside to add to).

    Its attention is told as that of no heads, so that the others keep their place in `output_attentions`.
    """
    batch, length = hidden_states.shape[:2]
    attention = hidden_states.new_zeros(batch, 0, length, length)
    cache = kwargs.get("past_key_values", kwargs.get("layer_past"))
    cache = next((a for a in args if hasattr(a, "get_seq_length")), cache)
    if (
        cache is not None
        and kwargs.get("key_value_states") is None
        and kwargs.get("encoder_hidden_states") is None
    ):
        # later steps read the length of the past from any layer, so this one keeps time with one empty number a token
        cache = getattr(cache, "self_attention_cache", cache)
        tick = hidden_states.new_zeros(batch, 1, length, 1)
        cache.update(tick, tick, self.layer_idx)
    out = output_inside(self)
    nothing = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if out is None:
        return nothing, attention
    return (_bias_alone(out, hidden_states) if out_axis(out) == 1 else out(nothing)), attention


def _bias_alone(self: Any, x: torch.Tensor) -> torch.Tensor:
    """GPT-2's Conv1D cannot read nothing, as a linear layer can."""
    return self.bias.expand(*x.shape[:-1], -1)


class _Lay:
    """Forward hook: lays what a cut projection gives into zeros of the width it once had."""

    def __init__(self, index: torch.Tensor, width: int):
        self.index, self.width = index, width

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.index = self.index.to(output.device)
        return output.new_zeros(*output.shape[:-1], self.width).index_copy(-1, self.index, output)


class _Pick:
    """Forward hook: picks the heads that are left out of a result over all heads."""

    def __init__(self, index: torch.Tensor):
        self.index = index

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.index = self.index.to(output.device)
        return output.index_select(-1, self.index)


class _PickInput(_Pick):
    """Forward pre-hook: the same, for what the output projection reads."""

    def __call__(self, module: nn.Module, args: Any, output: Any = None) -> Any:
        self.index = self.index.to(args[0].device)
        return (args[0].index_select(-1, self.index), *args[1:])


def _hooks(module: nn.Module, hook: Any) -> dict[int, Any]:
    """Where a hook of this kind hangs in a module."""
    return (
        module._forward_pre_hooks
        if isinstance(hook, _PickInput | _Outermost)
        else module._forward_hooks
    )


def _hook(module: nn.Module, hook: Any) -> None:
    """Hang in a hook of ours, in the place of one that an earlier cut left."""
    hooks = _hooks(module, hook)
    for key, old in hooks.items():
        if type(old) is type(hook):
            hooks[key] = hook
            return
    if isinstance(hook, _PickInput | _Outermost):
        module.register_forward_pre_hook(hook, prepend=True)
    else:
        module.register_forward_hook(hook)


class _Outermost:
    """Forward pre-hook of an attention layer: keeps the hooks of its projections on whatever stands in their places now.

    An adapter that is put around a small projection must read and give what the projection does, so that the hook
    belongs on the adapter, and back on the projection once the adapter is taken off.
    """

    def __init__(self, seats: list[tuple[nn.Module, str, Any]]):
        self.seats = seats  # the owner of a projection, its name there, and the hook

    def __call__(self, module: nn.Module, args: Any) -> None:
        for owner, name, hook in self.seats:
            outer = owner._modules[name]
            if outer is not None and hook not in _hooks(outer, hook).values():
                inner: Any = outer
                while hasattr(inner, "base_layer"):
                    inner = inner.base_layer
                    hooks = _hooks(inner, hook)
                    for key in [k for k, h in hooks.items() if h is hook]:
                        del hooks[key]
                _hook(outer, hook)


def _spread(site: Site, kept: tuple[int, ...], keys: tuple[int, ...]) -> None:
    if not kept and site.out is not None and out_axis(site.out) == 1:
        site.out.forward = partial(_bias_alone, site.out)
    seats: list[tuple[nn.Module, str, Any]] = []
    around = (
        site.core if site.parent is None else site.parent
    )  # the output projection may lie beside the core
    names = {
        id(child): (owner, name)
        for owner in around.modules()
        for name, child in owner._modules.items()
    }
    for role, part in site.parts.items():
        if role != "o" and not part.cut:
            continue
        rows = part.present(kept, keys)
        hook = _PickInput(rows) if role == "o" else _Lay(rows, part.size)
        _hook(part.module, hook)
        seats.append((*names[id(part.module)], hook))
    _hook(site.core, _Outermost(seats))


def _refuse(
    model: nn.Module, found: list[Site], layout: HeadLayout, gone: tuple[Head, ...]
) -> None:
    """Every reason not to begin, before anything is changed."""
    if len(gone) == len(layout):
        raise HeadError(
            "that would remove every head of every layer.", "leave at least one head in the model"
        )
    # a weight may be shared as a parameter of two modules, or as a module of two parents
    owners = Counter(
        id(p) for module in model.modules() for p in module._parameters.values() if p is not None
    )
    parents = Counter(id(child) for module in model.modules() for child in module._modules.values())
    lost = set(gone)
    for site in found:
        left = [i for i in site.kept if Head(site.block, site.layer, i) not in lost]
        if len(left) == len(site.kept):
            continue
        for part in site.parts.values():
            shared = part.module is not site.core and parents[id(part.module)] > 1
            if shared or any(
                owners[id(getattr(part.module, name))] > 1 for name, _ in part.tensors
            ):
                raise UnsupportedModel(
                    f"{site.path} shares a projection with another module; cutting one would tear them apart.",
                    "give each module a projection of its own, for instance module.q_proj = copy.deepcopy(module.q_proj)",
                )
        refuse_ragged(site, left)


def refuse_ragged(site: Site, left: list[int]) -> None:
    if site.keys in (1, site.size):
        return
    sizes = {g: [i for i in left if i // site.group == g] for g in {i // site.group for i in left}}
    if len({len(members) for members in sizes.values()}) > 1:
        short = min(sizes, key=lambda g: len(sizes[g]))
        raise GroupError(
            f"{site.block} layer {site.layer}: heads {spans(range(short * site.group, (short + 1) * site.group))} read one key/value head, "
            f"and only {'head' if len(sizes[short]) == 1 else 'heads'} {spans(sizes[short])} would be left while other groups keep more.",
            "remove all heads of a group, or equally many from each group of the layer. The lowest K of a ranking, by whole groups: "
            'prune(model, deadhead.strategies.choose("lowest", discover(model), K, scores=ranking.scores)), '
            "or: deadhead prune MODEL --lowest K --ranking FILE --out DIR",
        )


def unfit(model: nn.Module) -> UnsupportedModel | None:
    """Why this model cannot be cut in the state it is in, if so."""
    if getattr(model, "is_quantized", False) or getattr(model, "hf_quantizer", None) is not None:
        return UnsupportedModel(
            "the model is quantised; packed weights cannot be cut.",
            "load it unquantised, prune, then quantise",
        )
    wrapped = next(
        (module for module in model.modules() if type(module).__name__ in PARALLEL), None
    )
    if wrapped is not None:
        return UnsupportedModel(
            f"the model is wrapped for training on several processes ({type(wrapped).__name__}), which keeps its own list of weights.",
            "prune the model first, then wrap it",
        )
    for name, module in model.named_modules():
        if hasattr(module, "_packed_params") or "quantized" in type(module).__module__:
            return UnsupportedModel(
                f"the model is quantised (at {name}); packed weights cannot be cut.",
                "prune first, then quantise",
            )
        if hasattr(module, "lora_A") or hasattr(module, "base_layer"):
            return UnsupportedModel(
                f"adapters are attached (at {name}).",
                "merge them first: model = model.merge_and_unload()",
            )
        for parameter in module.parameters(recurse=False):
            if type(parameter.data).__name__ == "DTensor":
                return UnsupportedModel(
                    f"the weights are sharded over processes (at {name}).",
                    "prune the model first, then shard it",
                )
            if parameter.is_meta:
                return UnsupportedModel(
                    f"the weights are on the meta device (at {name}).",
                    "load the weights, then prune",
                )
            if not parameter.is_floating_point():
                return UnsupportedModel(
                    f"{name} holds packed weights of type {parameter.dtype}.",
                    "load it unquantised, prune, then quantise",
                )
    return None


def record(found: list[Site]) -> dict[str, Any]:
    """The removed heads as they are written into a config: block -> layer -> heads."""
    removed: dict[str, dict[str, list[int]]] = {}
    for site in found:
        gone = [i for i in range(site.size) if i not in site.kept]
        if gone:
            removed.setdefault(site.block, {})[str(site.layer)] = gone
    without = [site for site in found if dropped(site)]
    biases = {
        block: [site.layer for site in without if site.block == block]
        for block in dict.fromkeys(site.block for site in without)
    }
    return {"format": FORMAT, "removed": removed, **({BIASES: biases} if biases else {})}


def _remember(model: nn.Module, found: list[Site]) -> None:
    """Give the model a config of its own that lists the removed heads; whoever shares the old one keeps it."""
    old = next(
        (m.config for m in model.modules() if m.__dict__.get("config") is not None), None
    )  # of a wrapper, what it wraps
    if old is None:
        return
    copies: dict[int, Any] = {}
    new = copy.deepcopy(old, copies)
    setattr(new, RECORD, record(found))
    for module in model.modules():
        own = module.__dict__.get("config")
        if own is not None and id(own) in copies:
            module.config = copies[id(own)]
