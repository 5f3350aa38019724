"""Lines of files: plain or gzip, UTF-8 only, each with its number.

Every reader uses `lines`, so damaged bytes are handled in one place and every error names the file
and the line. A byte-order mark and Windows line ends are removed; anything else that is not plain
text (bad UTF-8, NUL bytes, stray carriage returns, a broken gzip) is refused.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from deadhead.errors import DataError

GZIP = b"\x1f\x8b"
# CoNLL-2002 is in Latin-1
CONVERT = "convert the file to UTF-8, for instance with: iconv -f latin1 -t utf-8"


def bad(path: Path | str, number: int, message: str, hint: str | None = None) -> DataError:
    """Return the error for a line that cannot be read, `file:line: message`; 0: the whole file."""
    where = f"{path}:{number}" if number else str(path)
    return DataError(f"{where}: {message}", hint)


def lines(path: Path, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, numbered from 1, without their ends or each with a line feed.

    ends: keep the line feeds; the last line may have none.
    """
    number = 0
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP  # the bytes decide, not the name
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                end = "\n" if ends and raw.endswith(b"\n") else ""
                yield number, _decode(path, number, raw) + end
    except (OSError, EOFError, zlib.error) as error:
        if number == 0 and not path.is_file():
            hint = "check the folder given with --data or DEADHEAD_DATA"
            raise DataError(f"{path}: there is no such file.", hint) from error
        message = f"the file cannot be read further ({error})."
        raise bad(path, number + 1, message, "fetch the file again; it looks cut off") from error


def _decode(path: Path, number: int, raw: bytes) -> str:
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if b"\0" in raw:
        hint = "name a text file in UTF-8; this one is binary, or in UTF-16"
        raise bad(path, number, "a NUL byte: this is not UTF-8 text.", hint)
    if b"\r" in raw:
        line_ends = "end every line with a line feed"
        raise bad(path, number, "a carriage return inside the line.", line_ends)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not UTF-8 (byte {error.start + 1} of the line)."
        raise bad(path, number, message, CONVERT) from error


def at_blanks(line: str) -> list[str]:
    """Split at blanks and nowhere else: a no-break space is part of a word."""
    return [cell for cell in line.split(" ") if cell]


def shorten(value: object, most: int = 40) -> str:
    """Return a value for a message, cut at `most` characters."""
    text = repr(value)
    return text if len(text) <= most else text[:most] + "..."
