"""The graphs of generation: a decoder with its cache, and the two of an encoder-decoder.

A cache holds the keys and values of each layer. Pruned layers have fewer of them, and a layer
without heads has none, so the graph has one pair of inputs and outputs for each layer that needs
it: `past_key_values.N.key`, `past_key_values.N.value`, `present.N.key`, `present.N.value`.

An encoder-decoder has two graphs. The encoder also computes the keys and values that
cross-attention reads, once for each text. So the decoder needs no encoder, and no weight is in
both files.
"""

import inspect
import math
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from deadhead.errors import UnsupportedModel

from .graph import TOTAL, Graph, Sizes

MODEL, ENCODER, DECODER = "model.onnx", "encoder_model.onnx", "decoder_model.onnx"
CACHE, NEW = "past_key_values", "present"  # how names of inputs and outputs begin
KEYS = ("key", "value")
# any sizes but 0 and 1, which the exporter would take as fixed
BATCH, LENGTH, PAST, SOURCE = 2, 3, 4, 5
HINT = "name a file that ends in .onnx: it holds one forward pass, without a cache"

BATCHES, LENGTHS, SOURCES = map(
    torch.export.Dim, ("batch_size", "sequence_length", "encoder_sequence_length")
)
PAST_LENGTHS = torch.export.Dim("past_sequence_length", min=0)

Shapes = dict[int, tuple[tuple[int, int], ...]]  # layer -> (heads, width) of its keys and values


def cached_graphs(model: Any) -> tuple[Graph, ...]:
    """The graphs that generate with this model; none if it does not generate with a cache."""
    parameters = inspect.signature(model.forward).parameters
    if "cache_params" in parameters:  # the state of Mamba and its relatives
        raise UnsupportedModel(f"{type(model).__name__} caches other things than keys.", HINT)
    if not model.can_generate() or "past_key_values" not in parameters:
        return ()
    ids = torch.ones(1, SOURCE, dtype=torch.long)
    inputs = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :2]
    with torch.no_grad():
        answer = model(**inputs, use_cache=True)
    cache = getattr(answer, "past_key_values", None)
    if cache is None:  # an encoder with a layer for masked words
        return ()
    if not isinstance(cache, EncoderDecoderCache):
        return (_decoder_graph(model, _shapes(model, cache), len(cache.layers)),)
    own = _shapes(model, cache.self_attention_cache)
    cross = _shapes(model, cache.cross_attention_cache, keep_first=False)
    width = int(answer.encoder_last_hidden_state.shape[-1])
    module = _CrossDecoder(model, own, cross, len(cache.self_attention_cache.layers), width)
    return (_encoder_graph(model, cross), _cross_decoder_graph(module))


def _shapes(model: Any, cache: Any, *, keep_first: bool = True) -> Shapes:
    """What each layer of the cache holds; layers without heads are left out.

    keep_first: keep the first layer if there is no other, since the length of the past is read
    from a layer.
    """
    shapes: Shapes = {}
    empty: Shapes = {}
    for number, layer in enumerate(cache.layers):
        if not getattr(layer, "is_initialized", True):
            continue  # cross-attention without heads stores nothing
        pair: list[Any] = [getattr(layer, name, None) for name in ("keys", "values")]
        if any(not isinstance(t, torch.Tensor) or t.dim() != 4 for t in pair):
            name = type(model).__name__
            raise UnsupportedModel(f"{name} caches other things than keys.", HINT)
        shape = tuple((int(t.shape[1]), int(t.shape[3])) for t in pair)
        # self-attention without heads stores a zero for each token
        is_empty = shape == ((1, 1), (1, 1)) and not any(bool(t.any()) for t in pair)
        (empty if is_empty else shapes)[number] = shape
    if not shapes and keep_first and empty:
        return {0: empty[0]}
    return shapes


class _Decoder(nn.Module):
    """One step of a language model as a function of tensors."""

    def __init__(self, model: Any, names: tuple[str, ...], layers: Shapes, count: int):
        super().__init__()
        self.model, self.names, self.layers, self.count = model, names, layers, count

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named, past = inputs[: len(self.names)], inputs[len(self.names) :]
        answer = self.model(
            **dict(zip(self.names, named, strict=True)),
            past_key_values=_filled(past, self.layers, self.count),
            use_cache=True,
        )
        return (answer.logits, *_flat(answer.past_key_values, self.layers))


def _filled(past: tuple[torch.Tensor, ...], layers: Shapes, count: int) -> Any:
    """A cache with this past: a pair of tensors for each layer, zeros for those without heads."""
    cache, pairs = DynamicCache(), iter(past)
    for number in range(count):
        if number in layers:
            cache.update(next(pairs), next(pairs), number)
        else:
            batch, _, length, _ = past[0].shape
            zeros = past[0].new_zeros(batch, 1, length, 1)
            cache.update(zeros, zeros, number)
    return cache


def _flat(cache: Any, layers: Shapes) -> list[torch.Tensor]:
    pairs = [(cache.layers[number].keys, cache.layers[number].values) for number in layers]
    return [tensor for pair in pairs for tensor in pair]


def _names(start: str, layers: Shapes, middle: str = "") -> tuple[str, ...]:
    return tuple(f"{start}.{number}.{middle}{kind}" for number in layers for kind in KEYS)


def _past(
    model: Any, layers: Shapes, middle: str, length: int, axis: Any
) -> tuple[dict[str, torch.Tensor], Sizes]:
    """The inputs with the keys and values of these layers, and their axes of free size."""
    names, generator = _names(CACHE, layers, middle), torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(BATCH, heads, length, width, generator=generator).to(model.dtype)
        for pair in layers.values()
        for heads, width in pair
    ]
    sizes = {name: {0: BATCHES, 2: axis} for name in names}
    return dict(zip(names, tensors, strict=True)), sizes


def _decoder_graph(model: Any, layers: Shapes, count: int) -> Graph:
    inputs = {
        "input_ids": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "attention_mask": torch.ones(BATCH, PAST + LENGTH, dtype=torch.long),
        "position_ids": torch.arange(PAST, PAST + LENGTH).repeat(BATCH, 1),
    }
    parameters = inspect.signature(model.forward).parameters
    inputs = {name: tensor for name, tensor in inputs.items() if name in parameters}
    sizes = {name: {0: BATCHES, 1: LENGTHS} for name in inputs}
    sizes["attention_mask"] = {0: BATCHES, 1: TOTAL}
    module = _Decoder(model, tuple(inputs), layers, count)
    past, past_sizes = _past(model, layers, "", PAST, PAST_LENGTHS)
    outputs = ("logits", *_names(NEW, layers))
    return Graph(MODEL, module, inputs | past, sizes | past_sizes, outputs)


class _Encoder(nn.Module):
    """The encoder, and what cross-attention reads of it, as a function of tensors.

    projections: what `_projections` found. Without them the whole model runs.
    """

    def __init__(self, model: Any, cross: Shapes, projections: list[nn.Module]):
        super().__init__()
        self.model, self.cross, self.projections = model, cross, projections

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ids, mask = inputs
        if self.projections:
            answer = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
            states = answer.last_hidden_state
            shapes = (shape for pair in self.cross.values() for shape in pair)
            pairs = zip(self.projections, shapes, strict=True)
            return (states, *(_in_heads(module(states), *shape) for module, shape in pairs))
        # keys and values of cross-attention do not depend on the tokens of the decoder
        answer = self.model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=ids[:, :1] * 0, use_cache=True
        )
        cache = answer.past_key_values.cross_attention_cache
        return (answer.encoder_last_hidden_state, *_flat(cache, self.cross))


def _in_heads(states: torch.Tensor, heads: int, width: int) -> torch.Tensor:
    return states.unflatten(-1, (heads, width)).transpose(1, 2)


@torch.no_grad()
def _projections(model: Any, cross: Shapes) -> list[nn.Module]:
    """The layers that turn the output of the encoder into keys and values; none if not found.

    With them the exporter traces no decoder for the graph of the encoder. They are found by what
    they read and give, whatever a model calls them.
    """
    words = int(model.get_input_embeddings().weight.shape[0])
    ids = torch.arange(BATCH * SOURCE).view(BATCH, SOURCE) % words
    calls = []

    def note(module: nn.Module, inputs: tuple[Any, ...], answer: Any) -> None:
        tensors = (*inputs, answer)
        if len(tensors) == 2 and all(isinstance(t, torch.Tensor) for t in tensors):
            calls.append((module, *tensors))

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    try:
        states, *expected = _Encoder(model, cross, [])(ids, torch.ones_like(ids))
    finally:
        for hook in hooks:
            hook.remove()
    calls = [c for c in calls if c[1].dtype == states.dtype and torch.equal(c[1], states)]
    shapes = [shape for pair in cross.values() for shape in pair]
    projections = []
    for tensor, shape in zip(expected, shapes, strict=True):
        size = (*states.shape[:2], math.prod(shape))
        projections += [
            module
            for module, _, answer in calls
            if (answer.shape, answer.dtype) == (size, tensor.dtype)
            and torch.equal(_in_heads(answer, *shape), tensor)
        ][:1]
    return projections if len(projections) == len(expected) else []


def _encoder_graph(model: Any, cross: Shapes) -> Graph:
    ids = torch.ones(BATCH, SOURCE, dtype=torch.long)
    sizes = {0: BATCHES, 1: SOURCES}
    return Graph(
        ENCODER,
        _Encoder(model, cross, _projections(model, cross)),
        {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        {"input_ids": sizes, "attention_mask": sizes},
        ("last_hidden_state", *_names(NEW, cross, "encoder.")),
    )


class _CrossDecoder(nn.Module):
    """One step of the decoder of an encoder-decoder as a function of tensors."""

    def __init__(self, model: Any, own: Shapes, cross: Shapes, count: int, width: int):
        super().__init__()
        self.model, self.own, self.cross = model, own, cross
        self.count, self.width = count, width

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ids, mask, *past = inputs
        mine = 2 * len(self.own)
        cache = EncoderDecoderCache(
            _filled(tuple(past[:mine]), self.own, self.count), DynamicCache()
        )
        pairs = iter(past[mine:])
        for number in self.cross:
            cache.cross_attention_cache.update(next(pairs), next(pairs), number)
            cache.is_updated[number] = True
        # only the shape of the encoder's output is read: its keys and values are in the cache
        states: Any = past[0].new_zeros(*mask.shape, self.width)
        answer = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=ids,
            past_key_values=cache,
            use_cache=True,
        )
        return (answer.logits, *_flat(answer.past_key_values.self_attention_cache, self.own))


def _cross_decoder_graph(module: _CrossDecoder) -> Graph:
    own, cross = module.own, module.cross
    inputs = {
        "input_ids": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "encoder_attention_mask": torch.ones(BATCH, SOURCE, dtype=torch.long),
    }
    sizes = {
        "input_ids": {0: BATCHES, 1: LENGTHS},
        "encoder_attention_mask": {0: BATCHES, 1: SOURCES},
    }
    past, past_sizes = _past(module.model, own, "decoder.", PAST, PAST_LENGTHS)
    read, read_sizes = _past(module.model, cross, "encoder.", SOURCE, SOURCES)
    outputs = ("logits", *_names(NEW, own, "decoder."))
    return Graph(DECODER, module, inputs | past | read, sizes | past_sizes | read_sizes, outputs)
