"""Multiple choice as windows: for each option the context and the option, whose tokens are labels.

Texts are cut into tokens as lm-evaluation-harness does. Context and option are one text; the tokens
of this text that are beyond those of the context alone, without the blanks at its end, are the
option's. A window that is too long loses tokens on the left.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from deadhead.errors import DataError
from deadhead.forward import IGNORED
from deadhead.tasks.task import Row

from .tokenizer import Pieces, Window


def option_windows(
    pieces: Pieces, rows: Sequence[Row], start: int, max_length: int, notes: Counter[str]
) -> Iterator[Window]:
    """Yield a window for each option of each row; the first row has the number `start`."""
    contexts = pieces.texts([row.texts[0].rstrip() for row in rows])
    wholes = iter(pieces.texts([r.texts[0] + option for r in rows for option in r.texts[1:]]))
    special = pieces.frame().before
    for number, (row, context) in enumerate(zip(rows, contexts, strict=True), start):
        before = _before(pieces, special, row.texts[0], bool(context))
        longest = 0
        for option in range(len(row.texts) - 1):
            whole = next(wholes)
            own = whole[len(context) :]
            name = f"option {option} of row {number} (both from 0)"
            _check(name, len(own), max_length)
            ids = [*before, *whole]
            longest = max(longest, len(ids))
            ids = ids[-max_length:]
            yield Window(number, ids, [IGNORED] * (len(ids) - len(own)) + own)
        notes["contexts cut on the left"] += longest > max_length


def _before(
    pieces: Pieces, special: tuple[int, ...], text: str, has_tokens: bool
) -> tuple[int, ...]:
    """Return the special tokens before a context.

    One without tokens needs something to begin with: the token for a beginning, or that for an end.
    """
    tokenizer = pieces.tokenizer
    if has_tokens or special:
        is_written = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        return () if is_written else special
    marks = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    mark = next((mark for mark in marks if mark is not None), None)
    if mark is None:
        message = "a context is empty, and the tokenizer has no token to begin with."
        raise DataError(message, "give every row a context")
    return (int(mark),)


def _check(name: str, size: int, max_length: int) -> None:
    if not size:
        message = f"the tokenizer leaves {name} no token of its own."
        raise DataError(message, "begin the options with a blank")
    if size >= max_length:
        message = f"{name} has {size} tokens, and a window holds {max_length} with one of the "
        hint = f"shorten the option, or raise --max-length (max_length) to {size + 1} or more, "
        hint += "if the model has the positions"
        raise DataError(f"{message}context.", hint)
