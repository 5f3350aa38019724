"""What a GGUF file of a model holds: an architecture of llama.cpp, its metadata and its tensors.

llama.cpp runs most architectures with the same number of heads in all layers. These have a number
for each layer:

    deci      layers without head norms (Llama, Mistral, Qwen2), with any biases
    openelm   with head norms (Qwen3), without biases, output matrix = embeddings
    step35    the same with an output matrix of its own, or with scaled rotary positions; needs a
              layer with a sliding window, so a layer of zeros follows the last one
    laguna    with head norms and biases

`laguna` has biases at its queries, keys and values alone, and that is enough: attention weights add
up to 1, so a head whose value is its bias gives the same vector at all tokens. An output bias
becomes such a head, and the bias of a feed-forward layer becomes a layer of its own behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from deadhead.errors import UnsupportedModel

from .decoder import Decoder, Layer, Linear

BLOCK = 32  # numbers that q4_0 and q8_0 quantise together
EVEN_NEURONS = ("step35", "laguna")  # whose feed-forward layers all have the same width
SAME = 1e-5  # rotary frequencies that differ by less are not scaled


@dataclass(frozen=True)
class Plan:
    """What a file holds. Its numbers are computed layer by layer, when they are needed."""

    decoder: Decoder
    architecture: str
    quantised: bool  # feed-forward layers are filled up to whole blocks

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors, each with its name, in the order of the file."""
        yield from _outer_tensors(self.architecture, self.decoder)
        for number, layer in enumerate(self._layers()):
            for name, tensor in _tensors(self.architecture, self.decoder, layer):
                yield f"blk.{number}.{name}", tensor

    def metadata(self) -> dict[str, Any]:
        width = self.decoder.width
        sizes = [
            (len(a.up.weight), len(a.queries.weight) // width, len(a.keys.weight) // width)
            for a in self._layers()
        ]
        metadata = _metadata(self.architecture, self.decoder, sizes)
        return {f"{self.architecture}.{key}": value for key, value in metadata.items()}

    def _layers(self) -> Iterator[Layer]:
        """The layers as the file has them."""
        layers = list(self.decoder.layers)
        if self.architecture == "laguna":
            layers = [part for layer in layers for part in _without_output_biases(layer)]
        if self.architecture == "step35":  # which needs a layer with a sliding window
            layers.append(_without_weights(layers[-1]))
        even = self.architecture in EVEN_NEURONS
        fewest = max(len(layer.up.weight) for layer in layers) if even else 1
        for number, layer in enumerate(layers):
            if number == 0 or self.architecture != "deci":
                layer = _with_head(layer, self.decoder.width)
            yield _with_neurons(layer, fewest, BLOCK if self.quantised else 1)


def plan(decoder: Decoder, *, quantised: bool) -> Plan:
    """What the file of a model holds; raises an error for biases that no architecture has."""
    if decoder.layers[0].query_norm is None:
        layers = tuple(
            _with_head(layer, decoder.width) if layer.output.bias is not None else layer
            for layer in decoder.layers
        )
        return Plan(replace(decoder, layers=layers), "deci", quantised)
    parts = [part for layer in decoder.layers for part in vars(layer).values()]
    if all(part.bias is None for part in parts if isinstance(part, Linear)):
        openelm = decoder.output is None and not _is_scaled(decoder)
        return Plan(decoder, "openelm" if openelm else "step35", quantised)
    if _is_scaled(decoder):
        raise UnsupportedModel(
            "GGUF has no uneven architecture with head norms, biases and scaled rotary positions."
        )
    if any(layer.gate.bias is not None or layer.up.bias is not None for layer in decoder.layers):
        raise UnsupportedModel(
            "GGUF has no uneven architecture with head norms and biases inside feed-forward layers."
        )
    return Plan(decoder, "laguna", quantised)


def _metadata(name: str, decoder: Decoder, sizes: list[tuple[int, int, int]]) -> dict[str, Any]:
    """The metadata of layers with these numbers of neurons, heads and key/value heads."""
    neurons, heads, keys = map(list, zip(*sizes, strict=True))
    metadata = {
        "context_length": decoder.context,
        "embedding_length": decoder.embeddings.shape[1],
        "block_count": len(sizes),
        "vocab_size": len(decoder.embeddings),
        "feed_forward_length": neurons,
        "attention.head_count": heads,
        "attention.head_count_kv": keys,
        "attention.key_length": decoder.width,
        "attention.value_length": decoder.width,
        "attention.layer_norm_rms_epsilon": decoder.epsilon,
        "rope.dimension_count": decoder.width,
        "rope.freq_base": decoder.theta,
    }
    if name == "step35":  # its layers of full attention turn half of what is named here
        metadata |= {
            "rope.dimension_count": 2 * decoder.width,
            "rope.dimension_count_swa": decoder.width,
            "attention.sliding_window": decoder.context,
            "attention.sliding_window_pattern": [*[False] * (len(sizes) - 1), True],
            "expert_feed_forward_length": 0,
        }
    if name == "laguna":
        metadata |= {
            "leading_dense_block_count": len(sizes),
            "expert_feed_forward_length": 0,
            "expert_shared_feed_forward_length": 0,
            "expert_weights_scale": 1.0,
            "expert_weights_norm": False,
        }
    return metadata


def _outer_tensors(name: str, decoder: Decoder) -> Iterator[tuple[str, Tensor]]:
    yield "token_embd.weight", decoder.embeddings
    yield "output_norm.weight", decoder.norm
    if decoder.output is not None:
        yield "output.weight", decoder.output
    elif name == "step35":
        yield "output.weight", decoder.embeddings
    if _is_scaled(decoder):
        yield "rope_freqs.weight", _factors(decoder)


def _factors(decoder: Decoder) -> Tensor:
    """By what each rotary frequency is divided."""
    width = decoder.width
    return decoder.theta ** -(torch.arange(0, width, 2) / width) / decoder.frequencies


def _is_scaled(decoder: Decoder) -> bool:
    return bool(((_factors(decoder) - 1).abs() > SAME).any())


def _tensors(name: str, decoder: Decoder, layer: Layer) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a layer."""
    if len(layer.queries.weight):
        yield "attn_norm.weight", layer.attention_norm
        queries, keys, values, output = layer.queries, layer.keys, layer.values, layer.output
        if name == "deci":
            queries, keys = _interleaved(queries, decoder), _interleaved(keys, decoder)
        if name == "openelm":
            yield "attn_qkv.weight", torch.cat([queries.weight, keys.weight, values.weight])
        else:
            yield from _named("attn_q", queries)
            yield from _named("attn_k", keys)
            yield from _named("attn_v", values)
        if name == "laguna":  # a gate of zeros multiplies every head by softplus(0) = ln 2
            gate = queries.weight.new_zeros(len(queries.weight) // decoder.width, 1)
            yield "attn_gate.weight", gate.expand(-1, queries.weight.shape[1])
            output = Linear(output.weight / math.log(2))
        yield from _named("attn_output", output)
        if layer.query_norm is not None and layer.key_norm is not None:
            yield "attn_q_norm.weight", layer.query_norm * decoder.magnitude
            yield "attn_k_norm.weight", layer.key_norm * decoder.magnitude
    yield "ffn_norm.weight", layer.feed_forward_norm
    yield from _named("ffn_gate", layer.gate)
    yield from _named("ffn_up", layer.up)
    yield from _named("ffn_down", layer.down)


def _named(name: str, part: Linear) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", part.weight
    if part.bias is not None:
        yield f"{name}.bias", part.bias


def _interleaved(part: Linear, decoder: Decoder) -> Linear:
    """Queries or keys with the two numbers that turn together side by side, as deci has them."""

    def reordered(rows: Tensor) -> Tensor:
        halves = rows.unflatten(0, (-1, 2, decoder.width // 2))
        return halves.transpose(1, 2).flatten(0, 2) * decoder.magnitude

    return Linear(reordered(part.weight), None if part.bias is None else reordered(part.bias))


def _with_head(layer: Layer, width: int) -> Layer:
    """A layer with a head of zeros if it has none, which changes nothing."""
    if len(layer.queries.weight):
        return layer
    rows = Linear(layer.attention_norm.new_zeros(width, len(layer.attention_norm)))
    output = Linear(rows.weight.T, layer.output.bias)
    return replace(layer, queries=rows, keys=rows, values=rows, output=output)


def _with_neurons(layer: Layer, fewest: int, block: int) -> Layer:
    """A layer with whole blocks of neurons: more neurons of zeros change nothing."""
    neurons = len(layer.up.weight)
    more = math.ceil(max(fewest, neurons) / block) * block - neurons
    if not more:
        return layer
    return replace(
        layer,
        gate=_with_rows(layer.gate, more),
        up=_with_rows(layer.up, more),
        down=Linear(pad(layer.down.weight, (0, more)), layer.down.bias),
    )


def _with_rows(part: Linear, rows: int) -> Linear:
    """A projection with more rows of zeros."""
    bias = None if part.bias is None else pad(part.bias, (0, rows))
    return Linear(pad(part.weight, (0, 0, 0, rows)), bias)


def _without_weights(layer: Layer) -> Layer:
    """A layer without heads and neurons, which changes nothing."""
    ones = torch.ones_like(layer.attention_norm)
    rows = Linear(ones.new_zeros(0, len(ones)))
    columns = Linear(rows.weight.T)
    return Layer(
        attention_norm=ones,
        queries=rows,
        keys=rows,
        values=rows,
        output=columns,
        query_norm=layer.query_norm,
        key_norm=layer.key_norm,
        feed_forward_norm=ones,
        gate=rows,
        up=rows,
        down=columns,
    )


def _without_output_biases(layer: Layer) -> Iterator[Layer]:
    """A layer whose output bias is a head, and another whose head is its feed-forward bias."""
    assert layer.key_norm is not None  # for mypy
    width, last = len(layer.key_norm), layer.down.bias
    layer = replace(layer, down=Linear(layer.down.weight))
    yield layer if layer.output.bias is None else _constant(layer, layer.output.bias, width)
    if last is not None:
        yield _constant(_without_weights(layer), last, width)


def _constant(layer: Layer, bias: Tensor, width: int) -> Layer:
    """A layer with another key/value head that gives the output bias, and without that bias."""
    groups = len(layer.keys.weight) // width
    shared = len(layer.queries.weight) // len(layer.keys.weight) if groups else 1
    values = _with_rows(layer.values, width)
    constant = bias.new_zeros(len(values.weight)) if values.bias is None else values.bias.clone()
    constant[groups * width] = 1
    columns = pad(bias[:, None], (0, shared * width - 1))
    return replace(
        layer,
        queries=_with_rows(layer.queries, shared * width),
        keys=_with_rows(layer.keys, width),
        values=Linear(values.weight, constant),
        output=Linear(torch.cat([layer.output.weight, columns], 1)),
    )
