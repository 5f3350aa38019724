"""Export a pruned model as ONNX with torch's exporter, and compare the file with the model."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.files import put
from deadhead.heads.load import load
from deadhead.heads.model_class import dtype_named
from deadhead.heads.model_files import tokenizer_of
from deadhead.hub import quiet

# the largest difference between two runtimes, as a share of the largest output
LIMITS = {torch.float32: 1e-4, torch.float16: 2e-2, torch.float64: 1e-4}
COLOURS = re.compile(r"\x1b\[\d*m")  # in the messages of torch's exporter
# inputs of a model without a tokenizer
USUAL = ("input_ids", "attention_mask", "token_type_ids")
# examples x tokens; none is 1 x 1, which a graph may have built in
SHAPES = ((1, 5), (2, 9), (3, 14), (5, 33), (2, 64))
PAIRS = (
    ("The parcel was sent on Monday, but nobody has seen it since.", "The parcel got lost."),
    ("Er liest.", "Niemand weiß, was er in den langen Nächten am Fenster wirklich getan hat."),
    ("El río crece en abril.", "El río crece."),
    ("河水在四月上涨。", "河里没有水。"),
)


class Exported(NamedTuple):
    """An ONNX file, its inputs and outputs, and how it compares with the model."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gap: float  # the largest difference, as a share of the largest output
    batches: int


def exported(
    folder: str | Path, *, onnx: str | Path, auto: Any = None, dtype: Any = "float32"
) -> Exported:
    """Write the model in `folder` as an ONNX file, and compare the file with the model.

    The inputs of the file are those that the tokenizer in the folder gives and the model reads
    (`input_ids`, `attention_mask`, `token_type_ids`, and `decoder_input_ids` for an
    encoder-decoder), so the dict of a tokenizer can be passed to it unchanged. Its outputs have
    the names of transformers, such as `logits` or `last_hidden_state`.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise MissingExtra(str(missing.name), "onnx", "exporting to ONNX") from missing
    target = Path(onnx)
    if target.exists() and not target.is_file():
        got = "a folder" if target.is_dir() else "something that is no file"
        example = target / "model.onnx" if target.is_dir() else "model.onnx"
        raise UnsupportedModel(f"{target}: expected a file, got {got}.", f"use {example}")
    model = load(folder, auto=auto, dtype=dtype_named(dtype), attn_implementation="eager").eval()
    _check(model)
    tokenizer = tokenizer_of(folder)
    wrapper = _Wrapper(model, _input_names(model, tokenizer))
    gaps: list[float] = []

    def fill(draft: Path) -> None:
        draft.touch()  # fails now rather than after the export
        _write(wrapper, _random_inputs(wrapper, 2, 9), draft)
        session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
        gaps.extend(_compare(wrapper, session, batch) for batch in _batches(wrapper, tokenizer))

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        put(target, fill)
    except OSError as problem:
        raise FolderError(
            f"{target} cannot be written: {problem.strerror}.",
            "name a file in a folder you may write to",
        ) from problem
    return Exported(target, wrapper.inputs, wrapper.outputs, max(gaps), len(gaps))


def _check(model: Any) -> None:
    if "input_ids" not in getattr(model, "main_input_name", "input_ids"):
        raise UnsupportedModel(
            f"expected a model that reads text (input_ids), got {type(model).__name__}."
        )
    if model.dtype not in LIMITS:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in LIMITS)
        got = str(model.dtype).removeprefix("torch.")
        raise UnsupportedModel(f"ONNX expects {known}, got {got}.", "use --dtype float32")


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


def _write(wrapper: _Wrapper, inputs: dict[str, torch.Tensor], file: Path) -> None:
    sizes = ("batch_size", "sequence_length", "decoder_sequence_length")
    batch, length, decoder = (torch.export.Dim(name) for name in sizes)
    shapes = tuple(
        {0: batch, 1: decoder if name.startswith("decoder") else length} for name in inputs
    )
    # its logger reports every optional package that is not installed
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), quiet(), torch.no_grad():
        warnings.simplefilter("ignore")
        wrapper(*inputs.values())  # sets the names of the outputs
        try:
            torch.onnx.export(
                wrapper,
                tuple(inputs.values()),
                file,
                input_names=list(inputs),
                output_names=list(wrapper.outputs),
                dynamic_shapes=(shapes,),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as problem:
            reason = COLOURS.sub("", str(problem.__cause__ or problem)).strip().splitlines()[0]
            raise UnsupportedModel(
                f"torch's exporter cannot write {type(wrapper.model).__name__} as ONNX: {reason}"
            ) from problem


def _compare(wrapper: _Wrapper, session: Any, inputs: dict[str, torch.Tensor]) -> float:
    """The largest difference in any output, as a share of its largest value; checks the limit."""
    with torch.no_grad():
        expected = wrapper(*inputs.values())
    got = session.run(list(wrapper.outputs), {k: v.numpy() for k, v in inputs.items()})
    gap = max(
        float((torch.from_numpy(g) - e).abs().max() / e.abs().max())
        for g, e in zip(got, expected, strict=True)
    )
    if not gap <= LIMITS[wrapper.model.dtype]:
        shape = " x ".join(map(str, inputs["input_ids"].shape))
        raise DeadheadError(
            f"the ONNX file answers differently from the model (by {gap:.1e} of the largest "
            f"output, on {shape} tokens), so it was not kept."
        )
    return gap


class _Wrapper(nn.Module):
    """The model as a function of tensors alone, as the exporter expects it."""

    def __init__(self, model: Any, inputs: tuple[str, ...]):
        super().__init__()
        self.model, self.inputs = model, inputs
        self.outputs: tuple[str, ...] = ()
        self.options = {"use_cache": False} if hasattr(model.config, "use_cache") else {}

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        answer = self.model(**dict(zip(self.inputs, inputs, strict=True)), **self.options)
        tensors = {
            name: value
            for name, value in answer.items()
            if isinstance(value, torch.Tensor) and not name.startswith("encoder_")
        }
        self.outputs = tuple(tensors)
        return tuple(tensors.values())


def _random_inputs(wrapper: _Wrapper, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens for every input, padded at the end of the last row."""
    generator = torch.Generator().manual_seed(batch * length)
    words = int(wrapper.model.get_input_embeddings().weight.shape[0])
    mask = torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        mask[-1, length // 2 :] = 0
    tensors: dict[str, torch.Tensor] = {}
    for name in wrapper.inputs:
        if name == "attention_mask":
            tensors[name] = mask
            continue
        kinds = max(1, _token_types(wrapper.model)) if name == "token_type_ids" else words
        size = (batch, max(2, length - 2) if name.startswith("decoder") else length)
        lowest = 3 if kinds > 3 else 0
        tensors[name] = torch.randint(lowest, kinds, size, generator=generator)
    return tensors


def _batches(wrapper: _Wrapper, tokenizer: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Batches to compare on: random tokens of several sizes, and texts and pairs if possible."""
    longest = getattr(wrapper.model.config, "max_position_embeddings", None) or SHAPES[-1][1] + 2
    for size, length in SHAPES:
        if length <= longest - 2:
            yield _random_inputs(wrapper, size, length)
    if tokenizer is None:
        return
    padding = tokenizer.pad_token is not None
    for texts in (([a for a, _ in PAIRS],), tuple(map(list, zip(*PAIRS, strict=True)))):
        rows = texts if padding else tuple(text[:1] for text in texts)
        limit = min(64, longest - 2)
        encoded = tokenizer(
            *rows, padding=padding, truncation=True, max_length=limit, return_tensors="pt"
        )
        random = _random_inputs(wrapper, *encoded["input_ids"].shape)
        yield {name: encoded.get(name, random[name]) for name in wrapper.inputs}
