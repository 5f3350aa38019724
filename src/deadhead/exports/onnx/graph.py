"""One ONNX graph: what it takes and gives, and how torch's exporter writes it."""

import logging
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import UnsupportedModel
from deadhead.files.hub import quiet

COLOURS = re.compile(r"\x1b\[\d*m")  # in the messages of torch's exporter
LARGEST = 2**31 - 2**24  # bytes of one file; weights of more go into a file beside it
# Two lengths that add up to a third cannot be declared: the exporter finds the third itself.
TOTAL = torch.export.Dim.DYNAMIC
TOTAL_NAME = "total_sequence_length"

Sizes = dict[str, dict[int, Any]]


class Graph(NamedTuple):
    """A function of tensors alone, as the exporter expects it, and an example of its inputs."""

    name: str  # the name of the file
    module: nn.Module
    inputs: dict[str, torch.Tensor]
    sizes: Sizes  # input -> axes of free size
    outputs: tuple[str, ...]


def write(graph: Graph, file: Path) -> None:
    """Write the graph; weights of more than 2 GB go into a second file beside it."""
    # its logger reports every optional package that is not installed
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    names = list(graph.inputs)
    with warnings.catch_warnings(), quiet(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                graph.module,
                tuple(graph.inputs.values()),
                input_names=names,
                output_names=list(graph.outputs),
                dynamic_shapes=(tuple(graph.sizes[name] for name in names),),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as problem:
            reason = COLOURS.sub("", str(problem.__cause__ or problem)).strip().splitlines()[0]
            raise UnsupportedModel(
                f"torch's exporter cannot write {graph.name} as ONNX: {reason}"
            ) from problem
        assert program is not None  # for mypy
        for value in program.model.graph.inputs:
            for axis, size in graph.sizes[str(value.name)].items():
                if size is TOTAL and value.shape is not None:
                    value.shape[axis] = TOTAL_NAME
        program.save(file, external_data=bytes_of(graph.module) > LARGEST)


def bytes_of(module: nn.Module) -> int:
    """The bytes of all weights."""
    return sum(p.numel() * p.element_size() for p in module.parameters())
