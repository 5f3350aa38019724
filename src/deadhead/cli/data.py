"""`deadhead data check` and `deadhead data list`: which data there is, and if it is readable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, BadParameter, Option

from ._command import Command
from ._options import AsJson, task_from
from ._progress import plural, print_json

if TYPE_CHECKING:
    from deadhead.tasks.check_folder import Finding
    from deadhead.tasks.hub_sets import HubSet

app = typer.Typer(
    name="data", help="Check data folders, and list the known tasks.", no_args_is_help=True
)


@app.command(cls=Command)
def check(
    folder: Annotated[
        Path | None,
        Argument(
            metavar="DIR",
            envvar="DEADHEAD_DATA",
            show_envvar=False,
            help="A data folder; by default DEADHEAD_DATA. A manifest.json or the file names "
            "say what each file contains. A YAML file given as --task names its own files.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        Option(
            metavar="NAME|FILE",
            help="The task, if the folder does not name it, or a YAML file that describes your "
            "own.",
        ),
    ] = None,
    malformed: Annotated[
        str | None,
        Option(
            metavar="error|drop",
            help="What to do with a line of a table that cannot be read: stop with an error, or "
            "drop and count it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read all data in DIR or of a task file, and summarize it. Exit code 1 if a line is broken."""
    # Longer than most functions: half of it is the list of options.
    chosen = task_from(task)
    if folder is None and chosen is not None and not isinstance(chosen, str):
        folder = Path(str(task)).parent
    if folder is None:
        raise BadParameter("name a data folder, or set DEADHEAD_DATA", param_hint="DIR")
    if malformed not in (None, "error", "drop"):
        message = f"expects error or drop, got {malformed!r}"
        raise BadParameter(message, param_hint="--malformed")
    from deadhead.tasks.check_folder import check_folder

    rows: list[Finding] = []
    for finding in check_folder(folder, chosen, malformed):
        rows.append(finding)
        if not as_json:
            typer.echo(_finding_line(finding), err=finding.error is not None)
    unreadable = sum(row.error is not None for row in rows)
    if as_json:
        print_json([row.to_dict() for row in rows])
    else:
        skipped = sum(row.skipped is not None for row in rows)
        files = f"; {plural(skipped, 'file')} skipped" if skipped else ""
        read = plural(len(rows) - unreadable - skipped, "split")
        sentences = plural(sum(row.sentences for row in rows), "sentence")
        typer.echo(f"{read} read, {sentences}; {unreadable} cannot be read{files}.")
    if unreadable:
        raise typer.Exit(1)


def _finding_line(finding: Finding) -> str:
    if finding.skipped:
        return f"skipped {finding.source}: {finding.skipped}"
    place = f"{finding.task:22} {finding.language:6} {finding.split:6} {finding.source:20}"
    if finding.error:
        return f"{place} ERROR {finding.error}"
    notes = [f"UD {finding.release}"] if finding.release else []
    notes += [f"{name}: {count}" for name, count in finding.notes.items()]
    notes += [f"only with source: {finding.only_with}"] if finding.only_with else []
    more = f"  ({'; '.join(notes)})" if notes else ""
    counts = f"{finding.sentences:7} sentences {len(finding.labels):4} labels"
    return f"{place} {counts}  {finding.fingerprint}{more}"


@app.command("list", cls=Command)
def list_tasks(as_json: AsJson = False) -> None:
    """List the known tasks, with their languages and metrics."""
    from deadhead.tasks import TASKS

    if as_json:
        fields = ("name", "kind", "metrics", "languages", "labels")
        rows = [
            {**{key: getattr(task, key) for key in fields}, "hub": list(map(_hub, task.hub))}
            for task in TASKS.values()
        ]
        print_json(rows)
        return
    for t in TASKS.values():
        hub = f"  (hub: {'; '.join(map(_hub, t.hub))})" if t.hub else ""
        typer.echo(f"{t.name:10} {t.kind:10} {t.metric:10} {' '.join(t.languages)}{hub}")


def _hub(data: HubSet) -> str:
    return f"{data.name} of {data.repository}:{data.config}@{data.revision}"
