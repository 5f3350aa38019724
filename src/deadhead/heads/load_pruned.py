"""Load the pruned model in this folder with torch and transformers alone.

    from load_pruned import load
    model = load("path/of/the/folder")

deadhead wrote this file and `load_pruned.json` beside the weights. Layers of the model have lost
attention heads or neurons, so plain `from_pretrained` refuses their shapes. The JSON file lists how
the modules differ from those that transformers builds from config.json. `load` changes them so,
and transformers reads the weights. Nothing else is needed, and no code of the folder runs unless
you import it.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

PLAN = "load_pruned.json"


def load(folder: str | Path, **kwargs: Any) -> Any:
    """The model in this folder, as the class in config.json; kwargs: those of `from_pretrained`."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    config.transformers_weights = config.fusion_config = None  # they stop plain transformers
    plan = json.loads((Path(folder) / PLAN).read_text(encoding="utf-8"))
    cls: Any = getattr(transformers, config.architectures[0])

    def __init__(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)
        fit(self, plan)

    small: Any = type(cls.__name__, (cls,), {"__init__": __init__, "__module__": cls.__module__})
    arguments = {"dtype": "auto", "use_safetensors": True, **kwargs, "output_loading_info": True}
    model, report = small.from_pretrained(folder, config=config, **arguments)
    model.__class__ = cls
    if wrong := sorted({*report["missing_keys"], *report["unexpected_keys"]}):
        raise ValueError(f"{folder}: the weights do not fit {PLAN}: {', '.join(wrong[:3])}")
    if model.config.dtype is not None and not getattr(cls, "_keep_in_fp32_modules", None):
        for parameter in model.parameters():  # transformers leaves some of XLNet's in float32
            parameter.data = parameter.data.to(model.config.dtype)
    return model


def fit(model: nn.Module, plan: dict[str, Any]) -> None:
    """Change the modules of a whole model into those of the pruned one, still without weights."""
    modules, before = dict(model.named_modules()), parameter_names(model)
    for name, shape in plan["shapes"].items():
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, nn.Parameter(torch.empty(shape)))
    tie_added(model, before)
    for path, numbers in plan["numbers"].items():
        modules[path].__dict__.update(numbers)
    for path, (out, alone) in plan["silent"].items():
        modules[path].forward = partial(silent_forward, modules[path], out, alone)
    for path in plan["bias_alone"]:
        modules[path].forward = partial(bias_alone, modules[path])
    for path, core in plan["add_bias"].items():
        modules[path].register_forward_pre_hook(AddBias(modules[core]))
    with torch.device("cpu"):  # transformers builds on a device where numbers have no values
        for path, (runs, width) in plan["spread"].items():
            modules[path].register_forward_hook(Spread(_rows(runs), width))
        for path, runs in plan["pick"].items():
            modules[path].register_forward_hook(PickRows(_rows(runs)))
        for path, runs in plan["pick_input"].items():
            modules[path].register_forward_pre_hook(PickInput(_rows(runs)), prepend=True)


def parameter_names(model: nn.Module) -> set[str]:
    return {name for name, _ in model.named_parameters(remove_duplicate=False)}


def tie_added(model: Any, before: set[str]) -> None:
    """Have transformers tie the biases that were added as it ties the weights beside them.

    before: the names of the parameters without them.
    """
    if added := parameter_names(model) - before:
        tied = model.get_expanded_tied_weights_keys(all_submodels=True)
        model.all_tied_weights_keys.update({n: tied[n] for n in added.intersection(tied)})


def _rows(runs: list[list[int]]) -> torch.Tensor:
    """Row numbers, from the first and the last of each run."""
    numbers = [row for first, last in runs for row in range(first, last + 1)]
    return torch.tensor(numbers, dtype=torch.long)


def silent_forward(
    self: Any, out: str | None, alone: bool, hidden_states: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """The forward pass of a layer without heads: its output bias, and attention of no heads.

    out: where the output projection is in the layer; None if it is outside, and then gets an input
    of width 0. alone: the layer gives no attention. The attention of no heads keeps the other
    layers at their places in `output_attentions`.
    """
    batch, length = hidden_states.shape[:2]
    attention = hidden_states.new_zeros(batch, 0, length, length)
    cache = kwargs.get("past_key_values", kwargs.get("layer_past"))
    cache = next((a for a in args if hasattr(a, "get_seq_length")), cache)
    crosses = any(kwargs.get(k) is not None for k in ("key_value_states", "encoder_hidden_states"))
    if cache is not None and not crosses:
        # later steps may read the length of the past from this layer: store a number per token
        cache = getattr(cache, "self_attention_cache", cache)
        tick = hidden_states.new_zeros(batch, 1, length, 1)
        cache.update(tick, tick, kwargs.get("layer_idx", self.layer_idx))
    result = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if out is not None:
        result = self.get_submodule(out)(result)
    return result if alone else (result, attention)


def bias_alone(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The output of GPT-2's Conv1D for an input of width 0, which it cannot multiply itself."""
    return self.bias.expand(*x.shape[:-1], -1)


class Spread:
    """Forward hook: copy the output of a cut projection into zeros of its old width."""

    def __init__(self, index: torch.Tensor, width: int):
        self.index, self.width = index, width

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.index = self.index.to(output.device)
        return output.new_zeros(*output.shape[:-1], self.width).index_copy(-1, self.index, output)


class PickRows:
    """Forward hook: pick the heads that are left out of an output over all heads."""

    def __init__(self, index: torch.Tensor):
        self.index = index

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.index = self.index.to(output.device)
        return output.index_select(-1, self.index)


class PickInput(PickRows):
    """Forward pre-hook: the same for the input of the output projection."""

    def __call__(self, module: nn.Module, args: Any, output: Any = None) -> Any:
        self.index = self.index.to(args[0].device)
        return (args[0].index_select(-1, self.index), *args[1:])


class AddBias:
    """Forward pre-hook of XLNet's dropout: add the bias to the output of the layer.

    XLNet projects with einsum and has no module to give a bias to; the dropout reads the result
    next. It reads the attention too, which has one axis more.
    """

    def __init__(self, core: Any):
        self.core = core

    def __call__(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
        return (args[0] + self.core.o_bias,) if args[0].dim() == 3 else None
