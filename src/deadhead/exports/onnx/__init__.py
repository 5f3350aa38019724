"""Write a model as ONNX: one forward pass as a file, or all that generation needs as a folder.

export      the front: load, write, quantise, compare
graph       one graph: what it takes and gives, and how torch's exporter writes it
one_pass    the graph of a whole forward pass, and the batches to compare it on
cached      the graphs of generation, with a cache of keys and values for each layer
steps       run the graphs of generation step by step, and compare them with the model
rounding    how a graph differs from the model, and how rounding alone moves its answers
genai       the settings that onnxruntime-genai reads
"""

from pathlib import Path


def is_one_file(target: Path) -> bool:
    """Whether a path names one file rather than a folder of graphs."""
    return target.suffix == ".onnx" or (target.exists() and not target.is_dir())
