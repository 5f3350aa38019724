"""`deadhead status`: how far a study has come. Parse, call, print."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .amounts import clock
from .studies import AsJson, Study

if TYPE_CHECKING:
    from deadhead.studies import Status

QUIET = 30.0  # seconds without a sign of life worth a word


def status(
    study: Study,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second until it ends.")
    ] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Show what failed, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How far a study has come: done, running, failed, left, and how long it will take.

    Example:

        deadhead status my-study --watch
    """
    from deadhead.studies import status as look

    found = look(study)
    if watch:
        found = _watch(study, look)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        for line in _lines(found):
            typer.echo(line)
    if failures:
        _show_failures(study, found)


def _watch(study: Path, look: Callable[[Path], Status]) -> Status:
    from rich.console import Console
    from rich.live import Live

    found = look(study)
    with Live(console=Console(stderr=True), transient=True) as live:
        while found.active:
            live.update("\n".join(_lines(found)))
            time.sleep(1)
            found = look(study)
    return found


def _lines(found: Status) -> Iterator[str]:
    from deadhead.studies.store.records import damage

    state = (
        "stopping"
        if found.stopping
        else "running"
        if found.active
        else "complete"
        if not found.left
        else "not running"
    )
    left = f", about {clock(found.eta)} to go" if found.eta is not None and found.left else ""
    if found.eta is None and found.running:
        left = (
            ", the time to go cannot be told: what runs takes longer than any trial before"
            if found.done
            else ""
        )
    yield f"{found.name}: {found.done:,} done, {len(found.running)} running, {found.failed:,} failed, {found.left:,} left of {found.total:,} ({state}{left})"
    if found.others:
        yield f"  {found.others:,} more records are of trials the recipe no longer asks for"
    if found.damaged:
        yield f"  {damage(found.damaged)}"
    for text in found.reports:
        yield f"  {text}"
    for name, versions in found.mixed.items():
        yield f"  the records do not share their inputs: {name} in {versions} versions"
    for one in found.running:
        quiet = f"  (no sign of life for {clock(one.quiet)})" if one.quiet >= QUIET else ""
        yield f"  {one.id}  {clock(one.seconds)}  {one.note}{quiet}"


def _show_failures(study: Path, found: Status) -> None:
    from deadhead.studies import read

    for name in found.failures:
        record = read(study, name)
        fields = {k: v for k, v in record.trial.content.items() if k not in ("finetune", "steps")}
        typer.echo(
            f"\n{name}  {json.dumps(fields, ensure_ascii=False)}\n{(record.error or '').rstrip()}"
        )
