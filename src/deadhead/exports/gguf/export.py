"""Write a saved model as a GGUF file, and check it with llama.cpp."""

from pathlib import Path
from typing import Any, NamedTuple

from deadhead.display.progress import stage
from deadhead.errors import DeadheadError, FolderError, MissingExtra, UnsupportedModel, unknown_name
from deadhead.files import put
from deadhead.heads.load import load_complete
from deadhead.heads.model_class import dtype_named
from deadhead.heads.model_files import tokenizer_of

from . import runtime, tokenizer
from .decoder import Decoder, read
from .file import TYPES, write
from .plan import plan

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
    folder: str | Path, *, gguf: str | Path, type: str = "f16", auto: Any = None, dtype: Any = None
) -> Exported:
    """Write the model in `folder` as a GGUF file; it is not kept if llama.cpp answers otherwise."""
    _check_installed()
    if type not in TYPES:
        raise unknown_name("GGUF type", type, TYPES)
    target = Path(gguf)
    if target.exists() and not target.is_file():
        raise UnsupportedModel(f"{target}: expected a file, got something else.", "use model.gguf")
    precision = {} if dtype is None else {"dtype": dtype_named(dtype)}
    model = load_complete(folder, auto=auto, **precision).eval()
    decoder, words = read(model), tokenizer_of(folder)
    config = getattr(model, "generation_config", None) or model.config
    of_words = tokenizer.metadata(words, config, len(decoder.embeddings))
    contents = plan(decoder, quantised=type == "q8_0")
    general = {"general.name": Path(folder).name, "general.file_type": TYPES[type]}
    metadata = {**general, **contents.metadata(), **of_words}
    comparisons: list[runtime.Comparison | None] = []

    def fill(draft: Path) -> None:
        stage(f"writing {target.name}")
        write(draft, contents, metadata, type)
        comparisons.append(_compared(draft, decoder, words, type))

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


def _check_installed() -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as missing:
        raise MissingExtra("gguf", "gguf", "a GGUF file") from missing


def _compared(file: Path, decoder: Decoder, words: Any, type: str) -> runtime.Comparison | None:
    """Compare the answers of llama.cpp with those of the model; None without llama.cpp."""
    if not runtime.is_installed():
        return None
    stage("comparing it with the model")
    prompts = [list(words(text)["input_ids"]) for text in TEXTS]
    reply = runtime.ask(file, prompts, TEXTS)
    comparison = runtime.compare(decoder, prompts, reply["answers"])
    if not comparison.share <= runtime.LIMITS[type]:
        raise DeadheadError(
            f"llama.cpp answers differently from the model (a log-probability by "
            f"{comparison.gap:.1e}), so the file is not usable."
        )
    for text, got, expected in zip(TEXTS, reply["tokens"], prompts, strict=True):
        if got != expected:
            raise DeadheadError(
                f"llama.cpp reads {text!r} as the tokens {got}, and the tokenizer of the model "
                f"as {expected}, so the file is not usable.",
                tokenizer.HINT,
            )
    return comparison
