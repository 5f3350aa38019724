"""Where the heads of a model live, found by looking at its modules rather than at its name.

An attention layer is a module that owns a query, a key and a value projection (three, or one fused
from them) and whose output projection reads exactly the heads side by side. The names such parts go
by are few, and listed here; widths and counts come from the weights. What does not fit these words
is passed over with the reason, never guessed at.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from deadhead.layout import Attention

# The names the parts of an attention layer go by.
TRIPLES = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"),
    ("query_proj", "key_proj", "value_proj"),
    ("linear_q", "linear_k", "linear_v"),
    ("to_q", "to_k", "to_v"),
    ("Wq", "Wk", "Wv"),
    ("project_q", "project_k", "project_v"),
    ("q_head", "k_head", "v_head"),
)
FUSED = ("query_key_value", "qkv_proj", "Wqkv", "c_attn", "in_proj", "qkv", "att_proj")
OUTPUTS: tuple[str, ...] = (
    "o_proj",
    "out_proj",
    "out_lin",
    "dense",
    "o",
    "c_proj",
    "Wo",
    "proj",
    "projection",
    "projection_layer",
)
OUTPUTS += ("linear_out", "to_out", "attention_out", "post_proj", "output", "output_proj")
OUTPUTS_OUTSIDE = (
    "output.dense",
    "output",
)  # seen from the parent of the module that owns q, k and v
WIDTHS = (
    "head_dim",
    "attention_head_size",
    "head_size",
    "d_head",
    "key_value_proj_dim",
    "dim_per_head",
    "dim_head",
    "head_width",
)
COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads", "heads")
KEY_COUNTS = ("num_key_value_heads", "num_kv_heads", "kv_heads")
TOTALS = ("all_head_size", "inner_dim", "split_size", "q_size", "attn_dim")
# Further parts whose rows belong to heads, cut along with the queries.
PER_HEAD_ROWS: tuple[str, ...] = (
    "query_global",
    "key_global",
    "value_global",
    "w2e_query",
    "e2w_query",
    "e2e_query",
)
PER_HEAD_ROWS += ("pos_proj", "pos_q_proj", "pos_key_proj", "pos_query_proj")
PER_HEAD_VECTORS = ("q_bias", "v_bias", "sinks")
# Further parts known to keep heads apart, which may stay as they are; any other may mix heads, and is refused.
HARMLESS: tuple[str, ...] = (
    "LayerNorm",
    "dense_bias",
    "gate_proj",
    "gate_bias",
    "g_proj",
    "relative_attention_bias",
    "relative_pos_embeddings",
)
HARMLESS += ("rel_pos_h", "rel_pos_w", "r_proj", "k_sconv", "v_sconv", "rel_logits_proj")
# Families that fuse q, k and v head by head; all others: all queries, then all keys, then all values.
INTERLEAVED = (
    "bloom",
    "gpt_neox",
    "gpt_neox_japanese",
    "falcon",
    "deberta",
    "persimmon",
    "gpt_bigcode",
)
LATENT = {
    "q_a_proj",
    "q_b_proj",
    "kv_a_proj_with_mqa",
    "kv_b_proj",
}  # of DeepSeek's attention, and of those that followed it
NOT_SOFTMAX = re.compile(
    r"Delta|Lightning|LinearAttention|Rwkv|Mamba|Deformable|Retention|EfficientAdditive|FNet"
)

NO_HEADS = "is not softmax attention over heads"


@dataclass
class Part:
    """One tensor-bearing piece of an attention layer, and which of its rows belong to which head."""

    module: nn.Module
    tensors: tuple[
        tuple[str, int], ...
    ]  # names of its parameters, each with the axis the rows run along
    rows: dict[str, torch.Tensor]  # role (q, k, v, o) -> unit x row numbers, as the layer was born
    size: int  # rows it was born with
    cut: bool = True  # False where a norm over all heads follows: the rows must stay, and are dropped after the norm

    def present(self, heads: tuple[int, ...], keys: tuple[int, ...]) -> torch.Tensor:
        """The rows that are left when only these heads and these key/value heads are."""
        if not self.cut:
            return torch.arange(self.size)
        gone = torch.zeros(self.size, dtype=torch.bool)
        for role, rows in self.rows.items():
            units = set(keys if role in "kv" else heads)
            lost = [u for u in range(len(rows)) if u not in units]
            gone[rows[lost].flatten()] = True
        return (~gone).nonzero().flatten()


@dataclass
class Site:
    """One attention layer of a model: its modules, its parts, and the heads it has left."""

    core: nn.Module  # owns q, k and v
    path: str
    out: (
        nn.Module | None
    )  # the output projection; its input is where the gate sits (None: XLNet's bare parameters)
    size: int
    keys: int  # key/value heads it was born with
    width: int
    kept: tuple[int, ...]
    parts: dict[str, Part] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(
        default_factory=dict
    )  # query and key norms that span all heads
    parent: nn.Module | None = None  # of the core
    time_first: bool = False
    shared_by: int = 1
    block: str = ""
    layer: int = 0

    @property
    def group(self) -> int:
        """Heads that read one key/value head and must stay equally many in each group."""
        return self.size // self.keys if self.keys > 1 else 1

    def keys_of(self, heads: tuple[int, ...]) -> tuple[int, ...]:
        """The key/value heads that these heads read."""
        return tuple(sorted({h * self.keys // self.size for h in heads}))

    def attention(self) -> Attention:
        return Attention(
            self.block,
            self.layer,
            self.size,
            self.kept,
            self.width,
            self.group,
            self.shared_by,
            self.path,
        )


@dataclass(frozen=True)
class Born:
    """What pruning leaves on the query projection, so that heads keep their numbers for ever.

    On the projection and not on the layer, because BigBird moves its projections to another layer object
    when it changes from sparse to full attention. An adapter that is put around the projection has it inside.
    """

    size: int
    keys: int
    width: int
    kept: tuple[int, ...]


MARK = "deadhead_born"


def sites(model: nn.Module) -> tuple[list[Site], dict[str, str]]:
    """Every attention layer found in the model, and those passed over, path -> reason."""
    found: list[Site] = []
    passed: dict[str, str] = {}
    uses: dict[int, int] = {}
    for _, module in model.named_modules(remove_duplicate=False):
        uses[id(module)] = uses.get(id(module), 0) + 1
    parents = {id(child): module for module in model.modules() for child in module.children()}
    for path, module in model.named_modules():
        result = look(module, path, parents.get(id(module)))
        if isinstance(result, Site):
            result.shared_by, result.parent = uses[id(module)], parents.get(id(module))
            found.append(result)
        elif result:
            passed[path] = result
    return found, passed


def look(core: nn.Module, path: str, parent: nn.Module | None) -> Site | str | None:
    """The attention layer this module owns, why it is passed over, or None where it is no attention at all."""
    name = type(core).__name__
    if isinstance(core, nn.MultiheadAttention):
        return "torch.nn.MultiheadAttention hands its output weights to one fused function, which leaves no place for a gate"
    if _bare_parameters(core):
        return _xlnet(core, path)
    projections = _projections(core)
    if not projections:
        latent = LATENT & core._modules.keys()
        return (
            f"{name} is latent attention: its heads share the compressed queries, keys and values of {', '.join(sorted(latent))}"
            if latent
            else None
        )
    if NOT_SOFTMAX.search(name):
        return f"{name} {NO_HEADS}"
    out = _output(core, parent)
    if out is None:
        return (
            f"{name} has {', '.join(projections)} but no output projection with a known name"
            if "ttention" in name
            else None
        )
    site = _measure(core, path, out, projections)
    if isinstance(site, Site):
        site.time_first = type(core).__module__.endswith("modeling_fsmt")
    return site


def bare(module: Any) -> Any:
    """A module without the adapters around it."""
    while hasattr(module, "base_layer"):
        module = module.base_layer
    return module


def linear_like(module: object) -> bool:
    """A plain linear map: torch's, GPT-2's Conv1D, or one of them with an adapter around it."""
    inner = bare(module)
    return (
        isinstance(module, nn.Module)
        and (isinstance(inner, nn.Linear) or type(inner).__name__ == "Conv1D")
        and module.weight.dim() == 2  # type: ignore[operator]
    )


def out_axis(module: nn.Module) -> int:
    """The axis of the weight along which outputs run: GPT-2's Conv1D keeps it transposed."""
    return 1 if type(bare(module)).__name__ == "Conv1D" else 0


def width_of(module: nn.Module, *, out: bool) -> int:
    axis = out_axis(module)
    return int(module.weight.shape[axis if out else 1 - axis])  # type: ignore[index]


def _projections(core: nn.Module) -> dict[str, nn.Module]:
    children = dict(core.named_children())
    for names in TRIPLES:
        if all(linear_like(children.get(n)) for n in names):
            return dict(zip("qkv", (children[n] for n in names), strict=True))
    for name in FUSED:
        if linear_like(children.get(name)):
            fused = children[name]
            return (
                {"q": children["q_attn"], "kv": fused}
                if linear_like(children.get("q_attn"))
                else {"qkv": fused}
            )
    return {}


def output_inside(core: nn.Module, names: tuple[str, ...] = OUTPUTS) -> nn.Module | None:
    """The output projection among the children of a module."""
    for name in names:
        child: Any = core
        for step in name.split("."):
            child = getattr(child, step, None)
        if name == "to_out" and isinstance(child, nn.ModuleList | nn.Sequential) and len(child):
            child = child[0]
        if linear_like(child):
            return child
    return None


def _output(core: nn.Module, parent: nn.Module | None) -> nn.Module | None:
    inside = output_inside(core)
    return (
        inside if inside is not None or parent is None else output_inside(parent, OUTPUTS_OUTSIDE)
    )


def _integer(module: nn.Module, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = getattr(module, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _measure(
    core: nn.Module, path: str, out: nn.Module, projections: dict[str, nn.Module]
) -> Site | str:
    """Count heads from weights; a reason where the parts do not add up to heads side by side."""
    name, reads = type(core).__name__, width_of(out, out=False)
    born: Born | None = getattr(bare(next(iter(projections.values()))), MARK, None)
    if born:
        size, keys, width, kept = born.size, born.keys, born.width, born.kept
        site = Site(core, path, out, size, keys, width, kept)
    else:
        width_found = _integer(core, WIDTHS)
        count = _integer(core, COUNTS)
        if width_found is None and count and reads % count == 0:
            width_found = reads // count
        if not width_found or reads % width_found or not reads:
            return f"{name} says neither how wide nor how many its heads are, or they do not fill its output projection of width {reads}"
        if count and count * width_found != reads:
            return f"{name}: {count} heads of width {width_found} are not what its output projection of width {reads} reads"
        size, width = reads // width_found, width_found
        counted = _count_keys(projections, size, width)
        if not counted:
            return f"{name}: its output projection reads {reads} values, which its value projection does not give as {size} heads"
        keys = counted
        site = Site(core, path, out, size, keys, width, tuple(range(size)))
        if any(
            width_of(m, out=True) % u or not width_of(m, out=True)
            for r, u in (("q", size), ("k", keys))
            if (m := projections.get(r))
        ):
            return f"{name}: its queries or keys do not divide into {size} and {keys} heads"
    for role, module in projections.items():
        rows = _rows(core, role, site, module)
        site.parts[role] = Part(
            module, _tensors(module), rows, 1 + max(int(r.max()) for r in rows.values())
        )
    site.parts["o"] = Part(
        out, (("weight", 1 - out_axis(out)),), {"o": _even(size, width)}, size * width
    )
    return _further_parts(site) or site


def _count_keys(projections: dict[str, nn.Module], size: int, width: int) -> int | None:
    if "v" in projections:
        gives = width_of(projections["v"], out=True)
        return (
            gives // width
            if gives % width == 0 and gives and size % (gives // width) == 0
            else None
        )
    if "kv" in projections:
        return size if width_of(projections["kv"], out=True) == 2 * size * width else None
    rest = width_of(projections["qkv"], out=True) - size * width
    keys = rest // (2 * width)
    return keys if rest > 0 and rest % (2 * width) == 0 and size % keys == 0 else None


def _even(units: int, width: int, offset: int = 0, stride: int | None = None) -> torch.Tensor:
    """Row numbers of units that follow each other at a fixed distance."""
    return offset + torch.arange(units)[:, None] * (stride or width) + torch.arange(width)


def _rows(core: nn.Module, role: str, site: Site, module: nn.Module) -> dict[str, torch.Tensor]:
    """Which rows of a projection belong to which head, as it was born."""
    size, keys, width = site.size, site.keys, site.width
    if role in ("q", "k", "v"):
        units = size if role == "q" else keys
        left = len(site.kept) if role == "q" else len(site.keys_of(site.kept))
        if not _is_cut(core, role):
            left = units
        # a layer that lost all its heads keeps empty projections, whose width no longer matters
        return {role: _even(units, width_of(module, out=True) // left if left else width)}
    if role == "kv":
        return {"k": _even(size, width), "v": _even(size, width, size * width)}
    kind = type(core).__module__.rsplit(".", 1)[-1].removeprefix("modeling_")
    if kind == "codegen":  # four partitions, each holding its share of q, then v, then k
        share, (local, head) = size // 4, divmod_heads(size, 4)
        base = local * 3 * share * width + head * width
        return {
            r: (base + i * share * width)[:, None] + torch.arange(width)
            for i, r in enumerate("qvk")
        }
    if kind == "falcon" and keys > 1 and keys < size:  # each group: its queries, its key, its value
        group = size // keys
        local, head = divmod_heads(size, keys)
        base, step = local * (group + 2) * width + head * width, (group + 2) * width
        k = _even(keys, width, group * width, step)
        return {"q": base[:, None] + torch.arange(width), "k": k, "v": k + width}
    if kind in INTERLEAVED and keys == size:
        return {r: _even(size, width, i * width, 3 * width) for i, r in enumerate("qkv")}
    return {
        "q": _even(size, width),
        "k": _even(keys, width, size * width),
        "v": _even(keys, width, (size + keys) * width),
    }


def divmod_heads(size: int, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each head, the partition it lies in and its place there."""
    heads = torch.arange(size)
    return heads // (size // parts), heads % (size // parts)


def _is_cut(core: nn.Module, role: str) -> bool:
    return not (role in "qk" and role in _wide_norms(core, 0))


def _tensors(module: nn.Module) -> tuple[tuple[str, int], ...]:
    axis = out_axis(module)
    bias = getattr(module, "bias", None)
    return (
        (("weight", axis), ("bias", 0)) if isinstance(bias, torch.Tensor) else (("weight", axis),)
    )


def _wide_norms(core: nn.Module, head_width: int) -> dict[str, nn.Module]:
    """Norms over the queries, or keys, of all heads at once (OLMo 2): role -> module."""
    wide: dict[str, nn.Module] = {}
    for role, names in (
        ("q", ("q_norm", "q_layernorm", "query_norm")),
        ("k", ("k_norm", "k_layernorm", "key_norm")),
    ):
        for name in names:
            weight = getattr(getattr(core, name, None), "weight", None)
            if isinstance(weight, torch.Tensor) and weight.dim() == 1:
                width = head_width or _integer(core, WIDTHS) or 0
                if width and weight.numel() > width:
                    wide[role] = getattr(core, name)
    return wide


def _further_parts(site: Site) -> str | None:
    """Parts beside q, k, v and o that carry something per head; a reason where one mixes heads."""
    core, name = site.core, type(site.core).__name__
    site.norms = _wide_norms(core, site.width)
    for role in site.norms:
        site.parts[role].cut = False
    known = {id(p.module) for p in site.parts.values()} | {id(m) for m in site.norms.values()}
    own_bias = (
        "position_bias" not in inspect.signature(type(core).forward).parameters
    )  # T5's first layer lends its bias to all
    for child_name, child in core.named_children():
        if id(child) in known:
            continue
        if child_name in PER_HEAD_ROWS and linear_like(child):
            site.parts[child_name] = Part(
                child, _tensors(child), {"q": _even(site.size, site.width)}, site.size * site.width
            )
        elif (
            child_name == "relative_attention_bias" and isinstance(child, nn.Embedding) and own_bias
        ):
            site.parts[child_name] = Part(
                child, (("weight", 1),), {"q": _even(site.size, 1)}, site.size
            )
        elif child_name not in HARMLESS and any(
            p.numel() not in (1, site.width) for p in child.parameters()
        ):
            return f"{name}.{child_name} works on all heads at once, as far as can be told, so no head can go alone"
    for vector, value in core.named_parameters(recurse=False):
        if vector.startswith("lambda_"):
            return f"{name}.{vector} weighs pairs of heads against each other (differential attention), so no head can go alone"
        if vector in PER_HEAD_VECTORS and value.dim() == 1:
            per = 1 if vector == "sinks" else site.width
            whole = value.numel() > per * len(
                site.kept
            )  # an earlier cut left it so, see `surgery.cut`
            site.parts[vector] = Part(
                core, ((vector, 0),), {"q": _even(site.size, per)}, site.size * per, cut=not whole
            )
        elif vector not in HARMLESS and value.numel() not in (1, site.width):
            return f"{name}.{vector} works on all heads at once, as far as can be told, so no head can go alone"
    return None


def _bare_parameters(core: nn.Module) -> bool:
    return all(
        isinstance(getattr(core, n, None), nn.Parameter) and getattr(core, n).dim() == 3
        for n in ("q", "k", "v", "o")
    )


def _xlnet(core: nn.Module, path: str) -> Site | str:
    """XLNet keeps q, k, v and o as bare parameters, model x heads x width, and multiplies them by einsum."""
    if not hasattr(core, "post_attention"):
        return f"{type(core).__name__} keeps q, k, v and o as bare parameters, and has no `post_attention` to put a gate at"
    born: Born | None = getattr(core, MARK, None)
    count, width = (int(n) for n in core.q.shape[1:])  # type: ignore[index]
    size = born.size if born else count
    kept = born.kept if born else tuple(range(size))
    names = [(n, 1) for n in ("q", "k", "v", "o", "r", "seg_embed")] + [
        (n, 0) for n in ("r_r_bias", "r_s_bias", "r_w_bias")
    ]
    present = tuple(
        (n, axis) for n, axis in names if isinstance(getattr(core, n, None), nn.Parameter)
    )
    parts = {"all": Part(core, present, {"q": _even(size, 1)}, size)}
    return Site(core, path, None, size, size, width, kept, parts, time_first=True)
