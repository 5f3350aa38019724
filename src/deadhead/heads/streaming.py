"""What a head gives if it sees only the first and the recent tokens, as the fill of its gate.

The attention of a layer is computed a second time, with a window around each query and the first
tokens, up to what its output projection reads. Nothing of a model is rewritten: a torch function
mode adds the window where the scores become probabilities, the softmax of the plain kernel or the
mask of torch's fused one. Other kernels form no scores that a mask could change.
"""

import copy
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.layout import Head, LayerKey

from .call import Calls
from .hooks import attach, is_same
from .site import Site

SINK, RECENT = 4, 256
KERNELS = (None, "eager", "sdpa")  # attention kernels that take any mask; None: of the model


@dataclass(frozen=True, kw_only=True)
class Streaming:
    """The fill of a head that sees only the first `sink` and the `recent` last tokens.

    The recent tokens are counted with the own one; padding is not counted. A head that reads both
    ways also sees as many tokens behind its own.
    """

    sink: int = SINK
    recent: int = RECENT

    def __post_init__(self) -> None:
        for name, least in (("sink", 0), ("recent", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                message = f"`{name}` expects a whole number from {least}, got {value!r}."
                raise HeadError(message, f"{SINK} first and {RECENT} recent tokens are the default")

    def seen(
        self, queries: int, keys: int, device: torch.device, padding: Tensor | None = None
    ) -> Tensor:
        """Which keys each query sees: (batch or 1) x 1 x queries x keys.

        padding: the mask of real tokens, batch x keys.
        """
        numbers = torch.arange(keys, device=device)[None]
        if padding is not None:
            numbers = padding.to(device).long().cumsum(1) - 1
        own = numbers[:, keys - queries :, None]
        near = (own - numbers[:, None]).abs() < self.recent
        return (near | (numbers[:, None] < self.sink))[:, None]


class StreamingOutputs:
    """What layers of a model read for streaming heads, computed when a gate asks for it."""

    def __init__(
        self,
        window: Streaming,
        sites: Iterable[Site],
        calls: Calls,
        stack: ExitStack,
        closed: Iterable[Head] = (),
    ):
        """closed: heads that are removed for now, which give nothing."""
        self.window, self.calls, self.closed = window, calls, set(closed)
        self._last: dict[LayerKey, tuple[Site, Site, Any, dict[str, Any]]] = {}
        for site in sites:
            _check(site)
            for use in site.uses:
                begin = self._beginning(site, use)
                hook = use.core.register_forward_pre_hook(begin, with_kwargs=True)
                stack.callback(hook.remove)

    def _beginning(self, site: Site, use: Site) -> Callable[..., None]:
        def begin(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            if is_same(module, use.core):
                options = {name: _unshared(value) for name, value in kwargs.items()}
                self._last[site.layer_key] = (site, use, tuple(map(_unshared, args)), options)

        return begin

    def of(self, layer: LayerKey) -> Tensor:
        """What the output projection reads in the running call of a layer, all heads streaming."""
        if layer not in self._last or torch.compiler.is_compiling():
            raise UnsupportedModel(
                f"streaming heads of {layer[0]} layer {layer[1]} expect a layer that is run as it "
                "is, got a compiled or a replaced one.",
                "use the model before torch.compile",
            )
        site, use, args, kwargs = self._last.pop(layer)
        mode = _Windows(self.window, site, self.calls)
        read = _read(use, args, kwargs, mode)
        if mode.uses != 1 or read.shape[-1] != site.width * len(site.kept):
            raise _refusal(site)
        closed = [site.kept.index(head.index) for head in self.closed if head[:2] == layer]
        if closed:
            heads = read.unflatten(-1, (-1, site.width)).clone()
            heads[..., closed, :] = 0
            read = heads.flatten(-2)
        return read


def _unshared(value: Any) -> Any:
    """The value; of a cache a copy, so that a second run adds its keys to the copy alone."""
    if not hasattr(value, "get_seq_length"):
        return value
    other = copy.copy(value)
    for name, part in vars(value).items():
        if isinstance(part, list | dict):
            setattr(other, name, copy.copy(part))
        elif hasattr(part, "get_seq_length"):
            setattr(other, name, _unshared(part))
    if isinstance(getattr(other, "layers", None), list):
        other.layers = [copy.copy(layer) for layer in other.layers]
    return other


class _Stop(Exception):
    """Ends a run at the output projection."""


def _read(use: Site, args: Any, kwargs: dict[str, Any], mode: TorchFunctionMode) -> Tensor:
    """Run an attention layer up to its output projection, and give what that reads."""
    read: list[Tensor] = []

    def stop(context: Tensor) -> Tensor:
        read.append(context)
        raise _Stop

    core: Any = use.core
    undo = attach(use, stop, first=True)
    try:
        with mode:
            output = core.forward(*args, **kwargs)
    except _Stop:
        return read[0]
    finally:
        undo()
    first: Tensor = output[0] if isinstance(output, tuple) else output
    return first  # where the output projection is above the layer (BERT)


class _Windows(TorchFunctionMode):
    """Adds the windows to the scores of one attention layer."""

    def __init__(self, window: Streaming, site: Site, calls: Calls):
        super().__init__()
        self.window, self.site, self.calls = window, site, calls
        self.uses = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "scaled_dot_product_attention":
            return self._fused(func, *args, **kwargs)
        if name == "softmax" and args and args[0].dim() > 3:
            seen = self._seen(args[0].shape, args[0].device)
            scores = args[0].masked_fill(~seen, torch.finfo(args[0].dtype).min)
            return func(scores, *args[1:], **kwargs)
        return func(*args, **kwargs)

    def _fused(
        self,
        func: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **others: Any,
    ) -> Tensor:
        seen = self._seen(query.shape[:-1] + key.shape[-2:-1], query.device)
        if is_causal:
            seen = seen & torch.ones_like(seen).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            both = seen & attn_mask
            # rows of padding may see nothing in the window; what they give must be a number
            seen = both | (attn_mask & ~both.any(-1, keepdim=True))
        elif attn_mask is not None:
            seen = attn_mask.masked_fill(~seen, torch.finfo(attn_mask.dtype).min)
        read: Tensor = func(query, key, value, attn_mask=seen, dropout_p=dropout_p, **others)
        return read

    def _seen(self, shape: torch.Size, device: torch.device) -> Tensor:
        """The window for scores of this shape: batch x heads x queries x keys."""
        self.uses += 1
        queries, keys = shape[-2:]
        tokens, padding = self.calls.tokens(self.site), self.calls.padding(self.site)
        fits = keys == queries + self.calls.now().cached and tokens in (None, queries)
        if not fits or len(shape) != 4 or (padding is not None and padding.shape[1] != keys):
            raise _refusal(self.site)
        if padding is not None and len(padding) != shape[0]:
            raise _refusal(self.site)
        return self.window.seen(queries, keys, device, padding)


def _check(site: Site) -> None:
    """Raise an error for a layer whose heads cannot stream, as far as that is known in advance."""
    if site.block == "cross":
        raise HeadError(
            f"streaming expects heads of self-attention, got those of cross-attention in layer "
            f"{site.layer}, which read the tokens of another text.",
            "name heads of the encoder or the decoder",
        )
    if _kernel(site) not in KERNELS:
        raise _refusal(site)


def _kernel(site: Site) -> str | None:
    kernel: str | None = getattr(getattr(site.core, "config", None), "_attn_implementation", None)
    return kernel


def _refusal(site: Site) -> UnsupportedModel:
    kernel = _kernel(site)
    return UnsupportedModel(
        f"streaming expects scores of queries x keys, which {site.block} layer {site.layer} "
        f"({type(site.core).__name__}) does not form"
        + (f" with the attention kernel {kernel!r}." if kernel else "."),
        'load the model with attn_implementation="eager" or "sdpa", and generate without a cache '
        "of fixed size; attention in blocks (Longformer, BigBird) has no such scores",
    )
