"""`deadhead status`: the progress of a study."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from deadhead.display.progress import clock

from ._options import AsJson, Study
from ._progress import print_json

if TYPE_CHECKING:
    from deadhead.studies import Status

# the last line of a traceback of deadhead's own errors, after which their hint may follow
EXPLAINED = re.compile(r"^(deadhead\.(?:\w+\.)*)\w+: ", re.MULTILINE)


def status(
    study: Study,
    watch: Annotated[
        bool, Option("--watch", help="Update every second until the study ends.")
    ] = False,
    failures: Annotated[
        bool, Option("--failures", help="Show the failed trials with their errors.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study: trials done, running, failed and left, and the time left.

    Example:

        deadhead status my-study --watch
    """
    from deadhead.studies import status as read_status

    progress = _watch(study) if watch else read_status(study)
    if as_json:
        print_json(progress.to_dict())
    else:
        typer.echo("\n".join(status_lines(progress)))
    if failures:
        _print_failures(study, progress)


def _watch(study: Path) -> Status:
    from rich.console import Console
    from rich.live import Live

    from deadhead.studies import status as read_status

    progress = read_status(study)
    with Live(console=Console(stderr=True), transient=True) as live:
        while progress.active:
            live.update("\n".join(status_lines(progress)))
            time.sleep(1)
            progress = read_status(study)
    return progress


def status_lines(status: Status) -> Iterator[str]:
    from deadhead.studies.store.records import damage

    state = "running" if status.active else "not running" if status.left else "complete"
    state = "stopping" if status.stopping else state
    left = ""
    if status.eta is not None and status.left:
        left = f", about {clock(status.eta)} left"
    yield (
        f"{status.name}: {status.done:,} done, {len(status.running)} running, "
        f"{status.failed:,} failed, {status.left:,} left of {status.total:,} ({state}{left})"
    )
    if status.damaged:
        yield f"  {damage(status.damaged)}"
    for text in status.reports:
        yield f"  {text}"
    for trial in status.running:
        yield f"  {trial.id}  {clock(trial.seconds)}  {trial.note}"


def _print_failures(study: Path, status: Status) -> None:
    from deadhead.studies import read

    for name in status.failures:
        record = read(study, name)
        fields = {k: v for k, v in record.trial.content.items() if k not in ("finetune", "steps")}
        text = json.dumps(fields, ensure_ascii=False)
        typer.echo(f"\n{name}  {text}\n{_readable(record.error or '', study, name)}")


def _readable(error: str, study: Path, name: str) -> str:
    """The error of a failed trial; of a mistake that deadhead explains, the explanation alone."""
    explained = [*EXPLAINED.finditer(error)]
    text = error[explained[-1].end(1) :].rstrip() if explained else ""
    if not text or "\nTraceback" in text:
        return error.rstrip()
    return f"{text}\n  The traceback is in {study / 'records' / name}.json."
