"""What every command does: group options, refuse empty values, accept old names, end quietly."""

import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from deadhead.display.progress import logged
from deadhead.errors import deprecated

from ._names import HOW, OLD, OUTPUT, PANEL_OF, PANELS, RARE, SPLIT
from ._signals import ended_by_signals


class Command(TyperCommand):
    """A command that refuses `--out ""`, which an unset variable in a script leaves behind.

    An empty path would be the current folder. `--help` groups the options and leaves out rare
    ones, which `--help-all` shows.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rare: list[Any] = [
            param for param in self.params if param.name in RARE.get(str(self.name), ())
        ]
        for param in self.params:
            if param.param_type_name == "option":
                _group(param)
        for param in self.rare:
            param.hidden = True
        if self.rare:
            names = ", ".join(param.opts[0] for param in self.rare)
            self.epilog = f"Rarely needed, and described by --help-all: {names}."

    def get_params(self, ctx: Any) -> list[Any]:
        order = [None, *PANELS]  # arguments are in no panel
        params = super().get_params(ctx)
        return sorted(
            params, key=lambda param: order.index(getattr(param, "rich_help_panel", None))
        )

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            _group(option, OUTPUT)
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            for param in self.rare:
                param.hidden = False
            args, self.epilog = ["--help"], None
        args = self._with_new_names(ctx, args)
        for place, arg in enumerate(args):
            name, equals, value = arg.partition("=")
            if name.startswith("--") and equals and not value:
                raise typer.BadParameter("expected a value, got nothing", ctx, param_hint=name)
            if not arg:
                option = args[place - 1] if place and args[place - 1].startswith("-") else None
                message = "expected a value, got an empty one"
                raise typer.BadParameter(message, ctx, param_hint=option)
        return super().parse_args(ctx, args)

    def _with_new_names(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments with options that have a new name under that name."""
        names = {**OLD[""], **OLD.get(str(self.name), {})}
        options = {name for param in self.params for name in param.opts}
        changed = []
        for arg in args:
            old, equals, value = arg.partition("=")
            new = names.get(old)
            if new is not None and new in options and old not in options:
                deprecated(old, new)
                if any(a.partition("=")[0] == new for a in args):
                    raise typer.BadParameter(f"the same as {new}: give one", ctx, param_hint=old)
                arg = new + equals + value
            changed.append(arg)
        return changed

    def invoke(self, ctx: Any) -> Any:
        # a terminal has bars
        log = nullcontext() if sys.stderr.isatty() else logged(partial(typer.echo, err=True))
        with ended_by_signals(), log:
            return super().invoke(ctx)


class Commands(TyperGroup):
    """The commands, also under the names they had before they were split."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *words = args
        options = {word.partition("=")[0] for word in words}
        for option, new in SPLIT.get(name, {}).items():
            if option in options:
                deprecated(f"deadhead {name} {option}", f"deadhead {new}")
                args = [new, *words]
                break
        return super().resolve_command(ctx, args)


def _group(option: Any, panel: str | None = None) -> None:
    """Put an option in its panel of the help, and show no type for a flag."""
    option.rich_help_panel = panel or PANEL_OF.get(option.opts[0], HOW)
    if option.is_flag:
        option.metavar = ""
