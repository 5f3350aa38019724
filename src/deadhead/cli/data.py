"""`deadhead data`: what data there is, and whether it can be read. Parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from deadhead.tasks import Task
    from deadhead.tasks.check_folder import Finding
    from deadhead.tasks.hub_sets import HubSet

app = typer.Typer(
    name="data",
    help="Look at data: what a folder holds, which tasks are known.",
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
# what commands that read data ask alike
TaskName = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="The task, such as pos.")
]
TaskFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A task of your own, in YAML, instead of --task."),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="The folder of data; by default DEADHEAD_DATA, or the hub."
    ),
]
Corpus = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="CORPUS",
        help="Another corpus than the default one, such as wikiann or ud-2.17.",
    ),
]
Length = Annotated[int, typer.Option(help="Sub-words in a window.")]
MaxExamples = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="At most N examples of each set, drawn at random; by default all."
    ),
]


@app.command()
def check(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            envvar="DEADHEAD_DATA",
            show_envvar=False,
            help="A folder of data, with a manifest.json or with telling names; by default DEADHEAD_DATA.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The task, in a folder that does not name it."),
    ] = None,
    task_file: TaskFile = None,
    malformed: Annotated[
        str | None,
        typer.Option(
            metavar="error|drop",
            help="Refuse lines of tables that cannot be read, or skip and count them.",
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare sizes with those of a paper: contributions, mbert-prunability.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read everything in DIR and say what it is; every line that cannot be read is named. Exit code 1 if there is one."""
    if folder is None:
        raise typer.BadParameter("name a folder of data, or set DEADHEAD_DATA", param_hint="DIR")
    if malformed not in (None, "error", "drop"):
        raise typer.BadParameter(
            f"got {malformed!r}; expected error or drop", param_hint="--malformed"
        )
    if paper is not None:
        _compare(folder, paper, task, as_json)
        return
    from deadhead.tasks.check_folder import check_folder

    rows: list[Finding] = []
    for finding in check_folder(folder, chosen_task(task, task_file), malformed):
        rows.append(finding)
        if not as_json:
            typer.echo(_line(finding), err=finding.error is not None)
    bad = [row for row in rows if row.error]
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], ensure_ascii=False, indent=1))
    else:
        skipped = sum(row.skipped is not None for row in rows)
        read = len(rows) - len(bad) - skipped
        files = f"; {skipped} file{'s' * (skipped != 1)} skipped" if skipped else ""
        typer.echo(
            f"{read} splits read, {sum(row.sentences for row in rows):,} sentences; {len(bad)} cannot be read{files}."
        )
    if bad:
        raise typer.Exit(1)


def _compare(folder: Path, paper: str, task: str | None, as_json: bool) -> None:
    """Print the sizes of a paper's data beside ours; exit code 1 unless all are equal."""
    from deadhead.tasks.corpus_sizes import Size, sizes

    rows: list[Size] = []
    if not as_json:
        typer.echo(
            f"{'task':6} {'lang':4} {'split':5} {'paper ':>9} {'here':>8} {'differs by':>10}  corpus of the paper; what was read"
        )
    for row in sizes(folder, paper, task):
        rows.append(row)
        if not as_json:
            here = "-" if row.ours is None else f"{row.ours:,}"
            differs = (
                "missing"
                if row.difference is None
                else f"{row.difference:+,}"
                if row.difference
                else "equal"
            )
            read = "; ".join(
                filter(
                    None,
                    (row.corpus, row.source, row.release and f"release {row.release}", row.note),
                )
            )
            stated = f"{row.published:,}{' ' if row.from_paper else '*'}"
            typer.echo(
                f"{row.task:6} {row.language:4} {row.split:5} {stated:>9} {here:>8} {differs:>10}  {read}"
            )
    equal, missing = (
        sum(row.difference == 0 for row in rows),
        sum(row.difference is None for row in rows),
    )
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], ensure_ascii=False, indent=1))
    else:
        if not all(row.from_paper for row in rows):
            typer.echo("* a figure of the corpus, which the paper does not print")
        typer.echo(
            f"{len(rows)} numbers: {equal} equal, {len(rows) - equal - missing} differ, {missing} missing here."
        )
    if equal < len(rows):
        raise typer.Exit(1)


def chosen_task(name: str | None, file: Path | None) -> str | Task | None:
    """The one of --task and --task-file that was given, if any."""
    if (name is not None and file is not None) or (
        name is not None and name.endswith((".yaml", ".yml"))
    ):
        raise typer.BadParameter("give --task NAME or --task-file FILE", param_hint="--task")
    from deadhead.tasks import read_task_file

    return name if file is None else read_task_file(file)


def needed_task(name: str | None, file: Path | None) -> str | Task:
    """The same, where one must be given."""
    task = chosen_task(name, file)
    if task is None:
        raise typer.BadParameter("give --task NAME or --task-file FILE", param_hint="--task")
    return task


def languages_of(text: str) -> list[str]:
    """Languages by commas, each once."""
    found = [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())]
    if not found:
        raise typer.BadParameter("name at least one language", param_hint="--lang")
    return found


def _line(finding: Finding) -> str:
    if finding.skipped:
        return f"skipped {finding.source}: {finding.skipped}"
    place = f"{finding.task:22} {finding.language:6} {finding.split:6} {finding.source:20}"
    if finding.error:
        return f"{place} ERROR {finding.error}"
    notes = [f"UD {finding.release}"] * bool(finding.release) + [
        f"{name}: {n}" for name, n in finding.notes.items()
    ]
    notes += [f"only with source: {finding.only_with}"] * bool(finding.only_with)
    more = f"  ({'; '.join(notes)})" if notes else ""
    return f"{place} {finding.sentences:7} sentences {len(finding.labels):4} labels  {finding.fingerprint}{more}"


@app.command("list")
def list_tasks(as_json: AsJson = False) -> None:
    """The tasks that are known, with their languages and metrics."""
    from deadhead.tasks import TASKS

    if as_json:
        shown = ("name", "kind", "metrics", "languages", "labels")
        rows = [
            {**{key: getattr(task, key) for key in shown}, "hub": list(map(_hub, task.hub))}
            for task in TASKS.values()
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    for t in TASKS.values():
        hub = f"  (hub: {'; '.join(map(_hub, t.hub))})" if t.hub else ""
        typer.echo(f"{t.name:10} {t.kind:10} {t.metric:10} {' '.join(t.languages)}{hub}")


def _hub(one: HubSet) -> str:
    return f"{one.name} of {one.repository}:{one.config}@{one.revision}"
