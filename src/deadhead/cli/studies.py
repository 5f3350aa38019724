"""`deadhead run`, `plan`, `recipes`, `status`, `stop`. Parse, call, print."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .amounts import clock, in_bytes

if TYPE_CHECKING:
    from deadhead.studies import Recipe, Result
    from deadhead.studies.plan import Plan

MUCH = 100_000_000  # bytes worth a word
RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="A built-in recipe, or a .yaml file of your own.", show_default=False
    ),
]
Study = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The folder of the study.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Override a field; can be given again."),
]
Scale = Annotated[str | None, typer.Option(help="A scale the recipe offers, such as mini.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Trials at a time.",
        show_default="one on each GPU, else as many as cores and memory hold",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", help="The folder of data; by default DEADHEAD_DATA, or the hub."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]


def run(
    recipe: RecipeName,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="STUDY",
            help="The folder of the study; the same again to go on.",
            show_default=False,
        ),
    ],
    workers: Workers = None,
    executor: Annotated[str, typer.Option(help="local, serial or ray.")] = "local",
    scale: Scale = None,
    overrides: Set = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run again what failed.")
    ] = False,
    accept_changed: Annotated[
        bool,
        typer.Option(
            "--accept-changed",
            help="Continue although model or data files changed; old records stay, marked.",
        ),
    ] = False,
    data: Data = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of one trial on the CPU; they change last digits.", show_default="1"
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Of a Ray cluster; `auto` finds one. By default a local one is started."),
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(help="With ray: GPUs of a trial, such as 0.25.")
    ] = None,
    trial_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|off",
            help="End a trial that takes longer, and try it once more.",
            show_default="when it hangs",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run all trials of a recipe that have no record yet. Ctrl-C finishes the running ones; twice stops at once.

    Examples:

        deadhead run weak-link/table4 --out table4 --workers 4

        deadhead run my.yaml --out study --set finetune.epochs=1 --set seed=[0,1]
    """
    from deadhead.studies import run as run_study
    from deadhead.studies.plan import usual_workers

    chosen = _chosen(recipe, overrides, scale)
    _surround(data, threads)
    workers = workers or usual_workers(chosen)
    options = {
        name: value for name, value in (("address", address), ("gpus", gpus)) if value is not None
    }
    if options and executor != "ray":
        raise typer.BadParameter(
            f"{' and '.join(f'--{name}' for name in options)}: only with --executor ray"
        )
    limit = _seconds(trial_timeout)
    with watched(chosen, quiet=as_json) as watch:
        result = run_study(
            chosen,
            out,
            workers=workers,
            executor=executor,
            retry_failed=retry_failed,
            accept_changed=accept_changed,
            watch=watch,
            options=options,
            trial_timeout=limit,
        )
    if as_json:
        typer.echo(json.dumps(vars(result)))
    else:
        tell(result, out)
    if result.failed or result.left:
        raise typer.Exit(1)


def _seconds(timeout: str | None) -> float | str | None:
    """The time limit of a trial: a number, None for `off`, or the one the study finds itself."""
    from deadhead.studies.execution.watchdog import AUTO

    if timeout is None or timeout == "off":
        return AUTO if timeout is None else None
    try:
        return float(timeout)
    except ValueError:
        raise typer.BadParameter(
            f"--trial-timeout: got {timeout!r}, expected a number of seconds, or off"
        ) from None


def _chosen(recipe: str, overrides: list[str] | None, scale: str | None) -> Recipe:
    """The recipe, checked whole; its claims too, which the room of studies knows nothing of."""
    from deadhead.errors import UnknownName
    from deadhead.studies import load
    from deadhead.studies.recipe.yaml import RecipeError

    chosen = load(recipe, overrides or (), scale)
    for i, name in enumerate(chosen.data.get("claims") or ()):
        from deadhead.claims import named

        try:
            named(name)
        except UnknownName as problem:
            raise RecipeError(
                f"{chosen.where(('claims', i))}: {problem.message}",
                "deadhead claims --published lists them",
            ) from None
    return chosen


def _surround(data: str | None, threads: int | None = None) -> None:
    """Put into the environment what workers inherit from it."""
    for name, value in (("DEADHEAD_DATA", data), ("DEADHEAD_THREADS", threads)):
        if value is not None:
            os.environ[name] = str(value)


def tell(result: Result, out: Path) -> None:
    typer.echo(
        f"{result.done} of {result.total} done, {result.failed} failed, {result.left} left; {result.ran} run in {clock(result.seconds)}."
    )
    if result.failed:
        typer.echo(
            f"What failed: deadhead status {out} --failures; to try again, give --retry-failed."
        )
    if result.left:
        typer.echo("To go on, give the same command again.")
        return
    from deadhead.studies import clean

    models, size = clean(out, dry=True)
    if size >= MUCH:
        typer.echo(
            f"{models} trained models that no trial waits for take {in_bytes(size)}; to free them: deadhead clean {out}"
        )


@contextmanager
def watched(recipe: Recipe, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """A bar where somebody sits before it, a line now and then in a log; a word when it is stopped at once."""
    try:
        with _shown(recipe, quiet=quiet) as watch:
            yield watch
    except KeyboardInterrupt:
        typer.echo(
            "stopped at once; what was finished is kept. To go on, give the same command again.",
            err=True,
        )
        raise typer.Exit(130) from None


@contextmanager
def _shown(recipe: Recipe, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None if quiet else _log_line()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task(recipe.name, total=len(recipe.trials))
        say_once = _said_once(lambda text: bar.console.print(text))

        def watch(facts: dict[str, Any]) -> None:
            say_once(facts)
            notes = [one["note"] for one in facts["running"].values() if one["note"]]
            state = (
                "finishing the running trials (Ctrl-C again: at once)"
                if facts["stopping"]
                else (notes[0] if notes else "")
            )
            done, failed = _recorded(facts)
            told = f" {failed} failed" if failed else ""
            bar.update(
                line, completed=done + failed, description=f"{recipe.name}{told} {state}".strip()
            )

        yield watch


def _log_line(every: float = 60.0) -> Callable[[dict[str, Any]], None]:
    last = [0.0]
    say_once = _said_once(lambda text: print(text, file=sys.stderr, flush=True))

    def watch(facts: dict[str, Any]) -> None:
        say_once(facts)
        if time.monotonic() - last[0] >= every:
            last[0] = time.monotonic()
            done, failed = _recorded(facts)
            print(
                f"{done}/{facts['total']} done, {failed} failed, {len(facts['running'])} running",
                file=sys.stderr,
                flush=True,
            )

    return watch


def _recorded(facts: dict[str, Any]) -> tuple[int, int]:
    """How many trials are done and how many failed, in this run and before it."""
    return facts["before"]["done"] + facts["done"], facts["before"]["failed"] + facts["failed"]


def _said_once(say: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """Says once what went wrong and was put right, and how workers share a GPU: without MPS that costs much."""
    from deadhead.studies.execution.gpu_sharing import ALONE

    said: set[str] = set()

    def watch(facts: dict[str, Any]) -> None:
        how = facts.get("sharing")
        sharing = [f"{facts['workers']} workers share a GPU {how}."] if how and how != ALONE else []
        for text in (*sharing, *facts.get("reports", ())):
            if text not in said:
                said.add(text)
                say(text)

    return watch


def plan(
    recipe: RecipeName,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="STUDY", help="Count what this folder already holds."),
    ] = None,
    workers: Workers = None,
    scale: Scale = None,
    overrides: Set = None,
    data: Data = None,
    trials: Annotated[bool, typer.Option("--trials", help="List the trials.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a recipe and say what it will take: trials, shared trainings, time and disk. Nothing is run.

    Example:

        deadhead plan weak-link/table4 --set draw=[0]
    """
    from deadhead.studies import plan as count
    from deadhead.studies.plan import usual_workers
    from deadhead.studies.recipe.load import with_inputs

    chosen = _chosen(recipe, overrides, scale)
    _surround(data)
    chosen = with_inputs(chosen)
    found = count(chosen, out, workers or usual_workers(chosen))
    if as_json:
        listed = {"list": [{"id": t.id, **t.content} for t in chosen.trials]} if trials else {}
        typer.echo(json.dumps({**found.to_dict(), **listed}, indent=1))
        return
    _show_plan(found)
    if trials:
        for trial in chosen.trials:
            typer.echo(
                f"{trial.id}  {json.dumps({k: v for k, v in trial.content.items() if k != 'finetune'}, ensure_ascii=False)}"
            )


def _show_plan(found: Plan) -> None:
    from deadhead.studies.store.records import damage

    already = f", {found.done} of them done already" if found.done else ""
    already += (
        f", {found.failed} failed (`run --retry-failed` tries those again)" if found.failed else ""
    )
    cells = f" for {found.cells:,} cells" if found.cells != found.trials else ""
    typer.echo(f"{found.name}: {found.trials:,} trial{'s' * (found.trials != 1)}{cells}{already}.")
    shared = f", {found.shared:,} of them shared by several trials" if found.shared else ""
    typer.echo(f"  {found.trainings:,} trainings{shared}; {found.rankings:,} rankings.")
    typer.echo(
        f"  About {clock(found.seconds)} and {in_bytes(found.bytes)} of disk ({found.basis})."
    )
    damaged = [damage(found.damaged)] if found.damaged else []
    for line in (
        *damaged,
        *found.warnings,
        *(f"Too little data: {line}" for line in found.shortfalls),
    ):
        typer.secho(f"  {line}", fg="yellow")
    if found.lacking:
        typer.secho("  Missing, and `run` would begin nothing without it:", fg="yellow")
        for line in found.lacking:
            typer.secho(f"    {line}", fg="yellow")
        for line in found.hint:
            typer.secho(f"  Hint: {line}", fg="yellow")


def recipes(as_json: AsJson = False) -> None:
    """The recipes that come with deadhead, with a line each."""
    from deadhead.studies import built_in
    from deadhead.studies.recipe.yaml import read

    found = {}
    for name, file in built_in().items():
        stored = read(file.read_text(encoding="utf-8"), name).data
        found[name] = str(stored.get("about", "")) if isinstance(stored, dict) else ""
    if as_json:
        typer.echo(
            json.dumps([{"name": name, "about": about} for name, about in found.items()], indent=1)
        )
        return
    width = max(map(len, found), default=0)
    for name, about in found.items():
        typer.echo(f"{name:{width}}  {about}")
    typer.echo(
        "\nTable 1 of contributions has the sizes of its data: deadhead data check DIR --paper contributions compares them with yours."
    )


def stop(
    study: Study,
    now: Annotated[
        bool, typer.Option("--now", help="At once, without finishing the running trials.")
    ] = False,
) -> None:
    """Ask a running study to stop once the running trials are done. `deadhead run` goes on with it later."""
    from deadhead.studies import stop as ask

    if ask(study, now=now):
        typer.echo(
            "asked to stop at once."
            if now
            else "asked to stop; the running trials are finished first."
        )
    else:
        typer.echo("nothing is running there.")


def clean(study: Study) -> None:
    """Delete the trained models of a study that no trial waits for. Records, rankings and predictions are kept.

    They lie there so that trials can start from them. A study that is extended later trains what it needs again.

    Example:

        deadhead clean my-study
    """
    from deadhead.studies import clean as tidy

    models, size = tidy(study)
    typer.echo(
        f"{models} trained model{'' if models == 1 else 's'} deleted, {in_bytes(size)} freed."
        if models
        else "there is nothing to delete."
    )
