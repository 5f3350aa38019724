"""The graph of one whole forward pass, and the batches to compare it with the model on."""

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from deadhead.embedding import embedder_of

from .graph import Graph
from .rounding import Difference, difference

# inputs of a model without a tokenizer
USUAL = ("input_ids", "attention_mask", "token_type_ids")
# examples x tokens; none is 1 x 1, which a graph may have built in
SHAPES = ((1, 5), (2, 9), (3, 14), (5, 33), (2, 48))
TRACED = (2, 9)
EMBEDDINGS = "sentence_embedding"  # as sentence-transformers names them


def one_pass_graph(model: Any, tokenizer: Any, name: str) -> Graph:
    """The graph of the whole model.

    Its inputs are those that the tokenizer gives and the model reads (`input_ids`,
    `attention_mask`, `token_type_ids`, and `decoder_input_ids` for an encoder-decoder), so the
    dict of a tokenizer can be passed to it unchanged. Its outputs have the names of transformers;
    those of a sentence encoder are its last hidden states and its embeddings.
    """
    module = _Model(model, _input_names(model, tokenizer))
    inputs = _random_inputs(module, *TRACED)
    batch, length, decoder = (
        torch.export.Dim(size)
        for size in ("batch_size", "sequence_length", "decoder_sequence_length")
    )
    sizes = {
        name: {0: batch, 1: decoder if name.startswith("decoder") else length} for name in inputs
    }
    with torch.no_grad():
        module(*inputs.values())  # sets the names of the outputs
    return Graph(name, module, inputs, sizes, module.outputs)


def differences(graph: Graph, session: Any) -> Iterator[Difference]:
    """The largest difference on each batch, as a share of the largest value of that output."""
    module: Any = graph.module
    for shape in SHAPES:
        inputs = _random_inputs(module, *shape)
        answer = session.run(list(graph.outputs), {k: v.numpy() for k, v in inputs.items()})
        run = partial(_answer, inputs=inputs)
        yield difference([*map(torch.from_numpy, answer)], module, run)


def _answer(module: nn.Module, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    answer: tuple[torch.Tensor, ...] = module(*inputs.values())
    return answer


class _Model(nn.Module):
    """The model as a function of tensors alone, as the exporter expects it."""

    def __init__(self, model: Any, inputs: tuple[str, ...]):
        super().__init__()
        self.model, self.inputs = model, inputs
        self.outputs: tuple[str, ...] = ()
        # with a task layer, it is no longer the encoder of its folder
        self.embedder = embedder_of(model) if model.base_model is model else None
        layers = () if self.embedder is None else self.embedder.layers
        self.layers = nn.ModuleList(layer for layer in layers if isinstance(layer, nn.Module))
        self.options = {"use_cache": False} if hasattr(model.config, "use_cache") else {}

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named = dict(zip(self.inputs, inputs, strict=True))
        answer = self.model(**named, **self.options)
        if self.embedder is not None:
            embeddings = self.embedder(answer, named)
            answer = {"last_hidden_state": answer.last_hidden_state, EMBEDDINGS: embeddings}
        tensors = {
            name: value
            for name, value in answer.items()
            if isinstance(value, torch.Tensor) and not name.startswith("encoder_")
        }
        self.outputs = tuple(tensors)
        return tuple(tensors.values())


def _input_names(model: Any, tokenizer: Any) -> tuple[str, ...]:
    """The inputs of the file: those that the tokenizer gives and the model reads."""
    names = [*USUAL]
    if tokenizer is not None:
        names = [*dict.fromkeys((*USUAL[:2], *tokenizer.model_input_names))]
    elif _token_types(model) < 2:
        names.remove("token_type_ids")
    if model.config.is_encoder_decoder:
        names.append("decoder_input_ids")
    parameters = inspect.signature(model.forward).parameters
    return tuple(name for name in names if name in parameters)


def _token_types(model: Any) -> int:
    """The number of token types (first sentence, second sentence) of the model."""
    return int(getattr(model.config, "type_vocab_size", 0) or 0)


def _random_inputs(module: _Model, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens for every input, padded at the end of the last row."""
    generator = torch.Generator().manual_seed(batch * length)
    words = int(module.model.get_input_embeddings().weight.shape[0])
    mask = torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        mask[-1, length // 2 :] = 0
    tensors = {}
    for name in module.inputs:
        if name == "attention_mask":
            tensors[name] = mask
            continue
        kinds = max(1, _token_types(module.model)) if name == "token_type_ids" else words
        size = (batch, max(2, length - 2) if name.startswith("decoder") else length)
        lowest = 3 if kinds > 3 else 0
        tensors[name] = torch.randint(lowest, kinds, size, generator=generator)
    return tensors
