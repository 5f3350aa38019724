"""How every command reads its arguments: no empty values, and plain messages for wrong ones."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

WRONG_TYPE = re.compile(r"(?P<value>.*) is not a valid (?P<type>integer|float)(?: range)?\.")
EXPECTED = {"integer": "a whole number", "float": "a number"}


class Command(TyperCommand):
    """A command that refuses `--out ""`, which an unset variable in a script leaves behind.

    An empty path would be the current folder.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place, arg in enumerate(args):
            name, equals, value = arg.partition("=")
            if name.startswith("--") and equals and not value:
                raise typer.BadParameter("expected a value, got nothing", ctx, param_hint=name)
            if not arg:
                option = args[place - 1] if place and args[place - 1].startswith("-") else None
                raise typer.BadParameter(
                    "expected a value, got an empty one", ctx, param_hint=option
                )
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as problem:
            match = WRONG_TYPE.fullmatch(problem.message)
            if match is None or problem.param is None:
                raise
            option, expected = problem.param.opts[0], EXPECTED[match["type"]]
            message = f"`{option}` expects {expected}, got {match['value']}"
            raise UsageError(message, ctx) from None


UsageError: Any = typer.BadParameter.__mro__[1]  # of the click that typer uses
