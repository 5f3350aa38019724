"""Write a saved model as a GGUF file, and check it with llama.cpp."""

from pathlib import Path
from typing import Any, NamedTuple

from deadhead.display.progress import stage
from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel, unknown_name
from deadhead.files import put
from deadhead.heads.load import load_complete
from deadhead.heads.model_class import dtype_named
from deadhead.heads.model_files import folder_of, is_sentence_encoder, tokenizer_of

from . import runtime, tokenizer
from .decoder import Decoder, read
from .file import IN_BLOCKS, TYPES, as_stored, read_file, write
from .plan import Plan, plan

TEXTS = (
    "The capital of France is",
    "In 1998 the company sold 12,400 units, up 7.5% from the year before;",
    "def area(width, height):\n    return",
)


class Exported(NamedTuple):
    """A GGUF file, and how llama.cpp answers with it."""

    file: Path
    architecture: str
    comparison: runtime.Comparison | None  # None: llama.cpp is not installed


def exported(
    folder: str | Path,
    *,
    gguf: str | Path,
    type: str = "f16",
    tokenizer_from: str | Path | None = None,
    auto: Any = None,
    dtype: Any = None,
) -> Exported:
    """Write the model in `folder` as a GGUF file; it is not kept if llama.cpp answers otherwise."""
    _check_installed()
    if type not in TYPES:
        raise unknown_name("GGUF type", type, TYPES)
    target = Path(gguf)
    if target.exists() and not target.is_file():
        raise UnsupportedModel(f"{target}: expected a file, got something else.", "use model.gguf")
    source = _Source(folder, auto, dtype, tokenizer_from)
    contents, metadata = source.contents(type)
    comparisons: list[runtime.Comparison | None] = []

    def fill(draft: Path) -> None:
        stage(f"writing {target.name}")
        write(draft, contents, metadata, type)
        comparisons.append(_compared(draft, source, type))

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        put(target, fill)
    except OSError as problem:
        # numpy gives no other reason where a disk is full
        reason = problem.strerror or f"the disk took only a part of it ({problem})"
        raise FolderError(
            f"{target} cannot be written: {reason}.",
            "name a file in a folder that you may write to and that has enough space",
        ) from problem
    return Exported(target, contents.architecture, comparisons[0])


class _Source:
    """A saved model as plain layers, and the tokenizer that its file gets."""

    def __init__(self, folder: str | Path, auto: Any, dtype: Any, tokenizer_from: Any):
        if tokenizer_from is not None:
            read_file(Path(tokenizer_from))  # or raise an error at once
        home = folder_of(folder)
        if auto is None and home is not None and is_sentence_encoder(home):
            raise UnsupportedModel(
                f"GGUF files are of language models, and {folder} is a sentence encoder.",
                "write ONNX, which keeps its pooling: deadhead export DIR --onnx NAME.onnx",
            )
        precision = {} if dtype is None else {"dtype": dtype_named(dtype)}
        model = load_complete(folder, auto=auto, **precision).eval()
        self.name = Path(folder).name
        self.decoder: Decoder = read(model)
        self.tokenizer = tokenizer_of(folder)
        self.tokenizer_from = None if tokenizer_from is None else Path(tokenizer_from)
        size = len(self.decoder.embeddings)
        if self.tokenizer_from is not None:
            self.tokenizer_metadata = tokenizer.copied(self.tokenizer_from, size, self.tokenizer)
        else:
            config = getattr(model, "generation_config", None) or model.config
            self.tokenizer_metadata = tokenizer.metadata(self.tokenizer, config, size)

    def contents(self, type: str) -> tuple[Plan, dict[str, Any]]:
        """The tensors and the metadata of its file."""
        contents = plan(self.decoder, quantised=type in IN_BLOCKS)
        general = {"general.name": self.name, "general.file_type": TYPES[type]}
        return contents, {**general, **contents.metadata(), **self.tokenizer_metadata}

    def prompts(self) -> list[list[int]]:
        if self.tokenizer is not None:
            return [list(self.tokenizer(text)["input_ids"]) for text in TEXTS]
        size = len(self.decoder.embeddings)
        return [[(7 * n * n + start) % size for n in range(9)] for start in (1, 5, 11)]


def _check_installed() -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as missing:
        raise MissingExtra("gguf", "gguf", "a GGUF file") from missing


def _compared(file: Path, source: _Source, type: str) -> runtime.Comparison | None:
    """Compare the answers of llama.cpp with those of the model; None without llama.cpp."""
    if not runtime.is_installed():
        return None
    stage("comparing it with the model")
    prompts = source.prompts()
    reply = runtime.ask(file, prompts, TEXTS)
    stored = runtime.compare(as_stored(source.decoder, type), prompts, reply["answers"])
    if not stored.share <= runtime.LIMITS[type]:
        raise DeadheadError(
            f"llama.cpp answers differently from the model in {source.name} (a log-probability by "
            f"{stored.gap:.1e}), so the file is not usable."
        )
    if source.tokenizer is not None and source.tokenizer_from is None:
        _compare_tokens(source, reply["tokens"])
    if type not in IN_BLOCKS:
        return stored
    return runtime.compare(source.decoder, prompts, reply["answers"])


def _compare_tokens(source: _Source, tokens: list[list[int]]) -> None:
    for text, got in zip(TEXTS, tokens, strict=True):
        expected = list(source.tokenizer(text)["input_ids"])
        if got != expected:
            raise DeadheadError(
                f"llama.cpp reads {text!r} as the tokens {got}, and the tokenizer of the model "
                f"as {expected}, so the file is not usable.",
                tokenizer.HINT,
            )
