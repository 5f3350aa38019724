"""What commands that run a model on data do alike: the model with its tokenizer, and a bar while they work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deadhead.errors import DataError
from deadhead.hub import source

from .model_options import load_model

if TYPE_CHECKING:
    from deadhead.rankers import Progress


def model_and_tokenizer(
    name: str, auto: str | None, dtype: str | None, place: str
) -> tuple[Any, Any]:
    """The model on its device and its tokenizer. On a CPU it is float32 unless asked otherwise: small floats are slow
    there, and round."""
    loaded = load_model(name, auto, dtype or ("float32" if place == "cpu" else None), device=place)
    return loaded, tokenizer_of(name, loaded)


def tokenizer_of(name: str, loaded: Any) -> Any:
    """The tokenizer that lies with a model. A decoder finds the end of a text by its padding, and is told what that is."""
    from transformers import AutoTokenizer

    from deadhead.tasks.encoding.tokenizer import UNREADABLE, Pieces

    try:
        tokenizer = AutoTokenizer.from_pretrained(**source(name), trust_remote_code=False)
    except UNREADABLE as problem:
        raise DataError(
            f"no tokenizer lies with {name}: {str(problem).splitlines()[0]}",
            "save the tokenizer into the model's folder",
        ) from None
    if getattr(loaded.config, "pad_token_id", None) is None:
        loaded.config.pad_token_id = Pieces(tokenizer).pad
    return tokenizer


@contextmanager
def watched(title: str) -> Iterator[Progress]:
    """A bar on standard error, where somebody sits before it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task(title, total=None)

        def progress(done: int, total: int, note: str = "") -> None:
            bar.update(line, completed=done, total=total, description=f"{title} {note}".strip())

        yield progress
