"""What every command does: no empty values, plain messages for wrong ones, and a quiet end."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand

from deadhead.display.progress import logged

from ._signals import ended_by_signals

EXPECTED = {  # words in a message of typer or click -> what the option expects
    r"valid integer": "a whole number",
    r"valid (number|float)": "a number",
    r"(greater than or equal to|range x>=) ?(?P<bound>\S+?)\.?$": "at least {bound}",
    r"(less than or equal to|range x<=) ?(?P<bound>\S+?)\.?$": "at most {bound}",
}
UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it


class Command(TyperCommand):
    """A command that refuses `--out ""`, which an unset variable in a script leaves behind.

    An empty path would be the current folder.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [*args]  # parsing empties args
        for place, arg in enumerate(args):
            name, equals, value = arg.partition("=")
            if name.startswith("--") and equals and not value:
                raise typer.BadParameter("expected a value, got nothing", ctx, param_hint=name)
            if not arg:
                option = args[place - 1] if place and args[place - 1].startswith("-") else None
                message = "expected a value, got an empty one"
                raise typer.BadParameter(message, ctx, param_hint=option)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as problem:
            raise self._plain(problem, ctx, words) from None

    def invoke(self, ctx: Any) -> Any:
        # a terminal has bars
        log = nullcontext() if sys.stderr.isatty() else logged(partial(typer.echo, err=True))
        with ended_by_signals(), log:
            return super().invoke(ctx)

    def _plain(self, problem: typer.BadParameter, ctx: Any, args: list[str]) -> Exception:
        """The same error as "`--epochs` expects a whole number, got 'banana'", if possible."""
        option = problem.param.opts[0] if problem.param else ""
        values = [b for a, b in pairwise(args) if a == option]
        values += [arg.partition("=")[2] for arg in args if arg.startswith(f"{option}=")]
        for pattern, expected in EXPECTED.items():
            match = re.search(pattern, problem.message)
            if match and values:
                text = expected.format(**match.groupdict())
                return UsageError(f"`{option}` expects {text}, got {values[-1]!r}", ctx)
        return problem
