"""What a command printed and its exit code, for the tests of commands."""

from collections.abc import Callable
from typing import NamedTuple


class Done(NamedTuple):
    code: int
    out: str
    err: str


RunCommand = Callable[..., Done]


def clean(done):
    return "Traceback" not in done.out + done.err
