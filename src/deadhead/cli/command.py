"""How every command reads its arguments: an empty one is refused, since an empty path is the current folder."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command that refuses `--out ""`, which an unset variable in a script leaves behind."""

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
        return super().parse_args(ctx, args)
