"""A pruned model as ONNX, made by torch's exporter and compared with the model it came from."""

from __future__ import annotations

import inspect
import logging
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel
from deadhead.hub import quiet, source

from .load import load
from .model_class import dtype_named
from .model_files import folder_of, has_tokenizer

LIMITS = {
    torch.float32: 1e-4,
    torch.float16: 2e-2,
    torch.float64: 1e-4,
}  # of the largest output, between two runtimes
COLOURS = re.compile(r"\x1b\[\d*m")  # in the messages of torch's exporter
USUAL = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
)  # what a tokenizer of text makes, where none lies with the model
SHAPES = (
    (1, 5),
    (2, 9),
    (3, 14),
    (5, 33),
    (2, 64),
)  # examples x tokens; none is 1 x 1, which a graph may have built in
PAIRS = (
    ("The parcel was sent on Monday, but nobody has seen it since.", "The parcel got lost."),
    ("Er liest.", "Niemand weiß, was er in den langen Nächten am Fenster wirklich getan hat."),
    ("El río crece en abril.", "El río crece."),
    ("河水在四月上涨。", "河里没有水。"),
)


class Exported(NamedTuple):
    """What was written, and on what it was compared with the model."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gap: float  # the largest difference, as a share of the largest output
    batches: int


def export(
    folder: str | Path, *, onnx: str | Path, auto: Any = None, dtype: Any = "float32"
) -> Path:
    """Write the model in `folder` as an ONNX file with free batch size and length, and check it.

    The file takes what the tokenizer in the folder makes and the model reads (`input_ids`, `attention_mask`,
    `token_type_ids`, and `decoder_input_ids` for an encoder-decoder), so the dict a tokenizer returns can be given to
    it as it is. Its outputs have the names that transformers gives them, such as `logits` or `last_hidden_state`.
    """
    return exported(folder, onnx=onnx, auto=auto, dtype=dtype).file


def exported(
    folder: str | Path, *, onnx: str | Path, auto: Any = None, dtype: Any = "float32"
) -> Exported:
    """The same, with what the file takes and gives and how near to the model it is."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise MissingExtra(str(missing.name), "onnx", "exporting to ONNX") from missing
    target = Path(onnx)
    if target.is_dir():
        raise UnsupportedModel(
            f"{target} is a folder.", f"name a file, for instance {target / 'model.onnx'}"
        )
    if target.exists() and not target.is_file():
        raise UnsupportedModel(
            f"{target} is no file that can be replaced.", "name a file, for instance model.onnx"
        )
    model = load(folder, auto=auto, dtype=dtype_named(dtype), attn_implementation="eager").eval()
    if "input_ids" not in getattr(model, "main_input_name", "input_ids"):
        raise UnsupportedModel(
            f"{type(model).__name__} does not read text; only models over input_ids are exported."
        )
    if model.dtype not in LIMITS:
        raise UnsupportedModel(
            f"ONNX files are not written in {str(model.dtype).removeprefix('torch.')}.",
            "use --dtype float32",
        )
    tokenizer = _tokenizer(folder)
    plain = _Plain(model, _names(model, tokenizer))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(
            f".{target.name}.draft"
        )  # what was there before stays until the new file is proved
        draft.touch()
    except OSError as problem:
        raise FolderError(
            f"{target} cannot be written: {problem.strerror}.",
            "name a file in a folder you may write to",
        ) from problem
    try:
        _write(plain, _inputs(plain, 2, 9), draft)
        session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
        gaps = [_compare(plain, session, batch) for batch in _batches(plain, tokenizer)]
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return Exported(target, plain.names, plain.gives, max(gaps), len(gaps))


def _tokenizer(folder: str | Path) -> Any:
    """The tokenizer that lies with the model; None where none does or it cannot be read."""
    from transformers import AutoTokenizer

    files = folder_of(folder)
    if files is None or not has_tokenizer(files):
        return None
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(**source(folder), trust_remote_code=False)
    except (
        Exception
    ):  # every tokenizer has errors of its own, and the inputs of the model are known without one
        return None


def _names(model: Any, tokenizer: Any) -> tuple[str, ...]:
    """The inputs of the file: what the tokenizer makes and the model takes."""
    takes = inspect.signature(model.forward).parameters
    makes = list(
        USUAL if tokenizer is None else dict.fromkeys((*USUAL[:2], *tokenizer.model_input_names))
    )
    if tokenizer is None and _types(model) < 2:
        makes.remove("token_type_ids")
    if model.config.is_encoder_decoder:
        makes.append("decoder_input_ids")
    return tuple(name for name in makes if name in takes)


def _types(model: Any) -> int:
    """Kinds of tokens (first sentence, second sentence) the model tells apart."""
    return int(getattr(model.config, "type_vocab_size", 0) or 0)


def _write(plain: _Plain, inputs: dict[str, torch.Tensor], file: Path) -> None:
    batch, length, answer = (
        torch.export.Dim(name)
        for name in ("batch_size", "sequence_length", "decoder_sequence_length")
    )
    shapes = tuple(
        {0: batch, 1: answer if name.startswith("decoder") else length} for name in inputs
    )
    logging.getLogger("torch.onnx").setLevel(
        logging.ERROR
    )  # it reports every optional package it can do without
    with warnings.catch_warnings(), quiet(), torch.no_grad():
        warnings.simplefilter("ignore")
        plain(*inputs.values())  # names the outputs
        try:
            torch.onnx.export(
                plain, tuple(inputs.values()), file, input_names=list(inputs), output_names=list(plain.gives),
                dynamic_shapes=(shapes,), dynamo=True, external_data=False, verbose=False,
            )  # fmt: skip
        except torch.onnx.errors.OnnxExporterError as problem:
            reason = COLOURS.sub("", str(problem.__cause__ or problem)).strip().splitlines()[0]
            raise UnsupportedModel(
                f"torch's exporter cannot write {type(plain.model).__name__} as ONNX: {reason}"
            ) from problem


def _compare(plain: _Plain, session: Any, inputs: dict[str, torch.Tensor]) -> float:
    """The largest difference in any output, as a share of its largest value; an error where it is more than rounding."""
    with torch.no_grad():
        expected = plain(*inputs.values())
    got = session.run(list(plain.gives), {k: v.numpy() for k, v in inputs.items()})
    gap = max(
        float((torch.from_numpy(g) - e).abs().max() / e.abs().max())
        for g, e in zip(got, expected, strict=True)
    )
    if not gap <= LIMITS[plain.model.dtype]:
        shape = " x ".join(map(str, inputs["input_ids"].shape))
        raise DeadheadError(
            f"the ONNX file answers differently from the model (by {gap:.1e} of the largest output, on {shape} tokens), so it was not kept."
        )
    return gap


class _Plain(nn.Module):
    """The model as a function of tensors alone, which is what the exporter expects."""

    def __init__(self, model: Any, names: tuple[str, ...]):
        super().__init__()
        self.model, self.names = model, names
        self.gives: tuple[str, ...] = ()
        self.further = {"use_cache": False} if hasattr(model.config, "use_cache") else {}

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        answer = self.model(**dict(zip(self.names, inputs, strict=True)), **self.further)
        tensors = {
            k: v
            for k, v in answer.items()
            if isinstance(v, torch.Tensor) and not k.startswith("encoder_")
        }
        self.gives = tuple(tensors)
        return tuple(tensors.values())


def _inputs(plain: _Plain, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens of every kind, padded at the end of the last row."""
    generator = torch.Generator().manual_seed(batch * length)
    words = int(plain.model.get_input_embeddings().weight.shape[0])
    mask = torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        mask[-1, length // 2 :] = 0
    made: dict[str, torch.Tensor] = {}
    for name in plain.names:
        kinds = max(1, _types(plain.model)) if name == "token_type_ids" else words
        size = (batch, max(2, length - 2) if name.startswith("decoder") else length)
        made[name] = (
            mask
            if name == "attention_mask"
            else torch.randint(3 if kinds > 3 else 0, kinds, size, generator=generator)
        )
    return made


def _batches(plain: _Plain, tokenizer: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Batches to compare on: several sizes of random tokens, and, with a tokenizer, what it makes of texts and of pairs of them."""
    places = getattr(plain.model.config, "max_position_embeddings", None) or SHAPES[-1][1] + 2
    for size, length in SHAPES:
        if length <= places - 2:
            yield _inputs(plain, size, length)
    if tokenizer is None:
        return
    padding = tokenizer.pad_token is not None
    for texts in (([a for a, _ in PAIRS],), tuple(map(list, zip(*PAIRS, strict=True)))):
        rows = texts if padding else tuple(t[:1] for t in texts)
        made = tokenizer(
            *rows,
            padding=padding,
            truncation=True,
            max_length=min(64, places - 2),
            return_tensors="pt",
        )
        yield {
            name: made[name] if name in made else _inputs(plain, *made["input_ids"].shape)[name]
            for name in plain.names
        }
