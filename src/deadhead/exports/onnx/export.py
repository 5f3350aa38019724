"""Export a saved model as ONNX with torch's exporter, and compare the graphs with the model."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from deadhead.display.progress import stage
from deadhead.embedding import embedder_of
from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.files import draft_of, put
from deadhead.files.export_folder import check_export, put_export
from deadhead.heads.load import load_complete, skeleton
from deadhead.heads.loading import use_plain_transformer
from deadhead.heads.model_class import dtype_named
from deadhead.heads.model_files import copy_files, folder_of, tokenizer_of

from . import genai, is_one_file, one_pass, steps
from .cached import CACHE, MODEL, cached_graphs
from .graph import LARGEST, Graph, bytes_of, write
from .rounding import Difference

POSITIONS = 50  # the longest batch has 48 tokens, and some models keep two for padding
# the largest difference between two runtimes, as a share of the largest output; or ROUNDINGS times
# what rounding alone makes of this model on the same batch, if that is more
LIMITS = {torch.float32: 1e-4, torch.float16: 2e-2, torch.float64: 1e-4}
ROUNDINGS = 10


class Exported(NamedTuple):
    """ONNX graphs, and how they compare with the model."""

    place: Path  # a file, or a folder of graphs
    graphs: tuple[Graph, ...]
    gap: float  # the largest difference, as a share of the largest output
    batches: int
    int8_gap: float | None = None  # the same of the quantised graphs

    @property
    def size(self) -> int:
        """The bytes of all graphs and their weights."""
        files = [self.place] if self.place.is_file() else self.place.glob("*.onnx*")
        return sum(file.stat().st_size for file in files)


def exported(
    folder: str | Path,
    *,
    onnx: str | Path,
    int8: bool = False,
    auto: Any = None,
    dtype: Any = "float32",
) -> Exported:
    """Write the model in `folder` as ONNX, and compare what was written with the model.

    A name that ends in .onnx becomes one file of one forward pass. Any other name becomes a
    folder with the graphs, the config and the tokenizer; the graphs of a model that generates
    text have a cache. int8: quantise the weights after the comparison, and compare again.
    """
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise MissingExtra(str(missing.name), "onnx", "exporting to ONNX") from missing
    target = Path(onnx)
    is_file = is_one_file(target)
    _check_target(target, is_file=is_file)
    settings = {"dtype": dtype_named(dtype), "attn_implementation": "eager"}
    bare = skeleton(folder, auto=auto, dtype=dtype)
    _check_model(bare, is_file=is_file)
    embedder_of(bare)  # or raise an error before any weights are read
    model = load_complete(folder, auto=auto, **settings).eval()
    tokenizer = tokenizer_of(folder)
    graphs = () if is_file else cached_graphs(model)
    if not graphs:
        graphs = (one_pass.one_pass_graph(model, tokenizer, target.name if is_file else MODEL),)
    gaps = []
    int8_gaps: list[float] = []

    def fill(files: list[Path]) -> None:
        files[0].touch()  # fails now rather than after the export
        for graph, file in zip(graphs, files, strict=True):
            stage(f"writing {graph.name}")
            write(graph, file)
        stage("comparing it with the model")
        for difference in _differences(model, graphs, files):
            gap = difference.gap
            if not (gap <= LIMITS[model.dtype] or gap <= ROUNDINGS * difference.rounding()):
                raise DeadheadError(
                    f"the ONNX file answers differently from the model (by {gap:.1e} of the "
                    "largest output), so it was not kept."
                )
            gaps.append(gap)
        if int8:
            for file in files:
                _quantise(file, large=bytes_of(model) > LARGEST)
            int8_gaps.extend(d.gap for d in _differences(model, graphs, files))

    def fill_folder(draft: Path) -> None:
        fill([draft / graph.name for graph in graphs])
        _add_settings(model, graphs, folder, draft)

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_file:
            put(target, lambda draft: fill([draft]))
        else:
            put_export(target, fill_folder)
    except OSError as problem:
        raise FolderError(
            f"{target} cannot be written: {problem.strerror or problem}.",
            "name a place that you may write to and that has enough space",
        ) from problem
    return Exported(target, graphs, max(gaps), len(gaps), max(int8_gaps) if int8 else None)


def _check_target(target: Path, *, is_file: bool) -> None:
    if is_file and target.exists() and not target.is_file():
        got = "a folder" if target.is_dir() else "something that is no file"
        example = target / "model.onnx" if target.is_dir() else "model.onnx"
        raise UnsupportedModel(f"{target}: expected a file, got {got}.", f"use {example}")
    if not is_file:
        check_export(target)


def _check_model(model: Any, *, is_file: bool) -> None:
    if "input_ids" not in getattr(model, "main_input_name", "input_ids"):
        raise UnsupportedModel(
            f"expected a model that reads text (input_ids), got {type(model).__name__}."
        )
    if model.dtype not in LIMITS:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in LIMITS)
        got = str(model.dtype).removeprefix("torch.")
        raise UnsupportedModel(f"ONNX expects {known}, got {got}.", "use --dtype float32")
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if isinstance(positions, int) and 0 < positions < POSITIONS:
        raise UnsupportedModel(
            f"to check an ONNX graph takes a model with at least {POSITIONS} positions "
            f"(max_position_embeddings), got {positions}.",
            "run the folder itself, in Python: deadhead.load(FOLDER)",
        )
    if is_file and bytes_of(model) > LARGEST:
        raise UnsupportedModel(
            f"one ONNX file holds at most 2 GB, and the model has {bytes_of(model) / 1e9:.1f} GB.",
            "name a folder: its weights are in a file of their own",
        )


def _differences(model: Any, graphs: tuple[Graph, ...], files: list[Path]) -> Iterator[Difference]:
    """How the files differ from the model, as a share of the largest output, on each batch."""
    import onnxruntime

    cpu = ["CPUExecutionProvider"]
    sessions = [onnxruntime.InferenceSession(str(file), providers=cpu) for file in files]
    if len(sessions) == 2:
        return steps.cross_decoder_differences(model, *sessions)
    if any(name.startswith(CACHE) for name in graphs[0].inputs):
        return steps.decoder_differences(model, sessions[0])
    return one_pass.differences(graphs[0], sessions[0])


def _quantise(file: Path, *, large: bool) -> None:
    """Replace a graph by the same with weights in int8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # a folder: large weights are in a second file, which the graph knows by its name
    draft, level = draft_of(file), logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it gives the same advice for every file
    try:
        draft.mkdir()
        quantize_dynamic(
            file,
            draft / file.name,
            weight_type=QuantType.QInt8,
            per_channel=True,  # one scale a matrix moved the embeddings of MiniLM six times as far
            use_external_data_format=large,
            nodes_to_exclude=_prepare(file),
        )
        for written in draft.iterdir():
            shutil.copyfile(written, file.with_name(written.name))  # `file` may be a locked draft
    finally:
        logging.getLogger().setLevel(level)
        shutil.rmtree(draft, ignore_errors=True)


def _prepare(file: Path) -> list[str]:
    """Drop the noted shapes of the graph, and return the products that stay as they are.

    The quantiser transposes the weights of a classifier, and then fails because the note of their
    shape is the old. Products with no weights, of layers without heads, have no int8 scale.
    """
    import onnx

    model = onnx.load(file, load_external_data=False)
    del model.graph.value_info[:]  # the quantiser infers them
    onnx.save(model, file)
    graph = model.graph
    empty = {tensor.name for tensor in graph.initializer if 0 in tensor.dims}
    names = [node.name for node in graph.node if empty & {*node.input}]
    return [*names, *(f"{name}_MatMul" for name in names)]  # as the quantiser renames some


def _add_settings(model: Any, graphs: tuple[Graph, ...], folder: str | Path, draft: Path) -> None:
    """Add what runtimes read beside the graphs: the config, the tokenizer, settings of genai."""
    source = folder_of(folder)
    if source is not None:
        copy_files(source, draft, tokenizer=True)
        if (source / "config.json").exists():
            shutil.copyfile(source / "config.json", draft / "config.json")
        use_plain_transformer(draft)  # which runs the graph
    if any(name.startswith(CACHE) for name in graphs[0].inputs):
        text = json.dumps(genai.settings(model, graphs[0]), indent=1)
        (draft / genai.FILE).write_text(text + "\n", encoding="utf-8")
