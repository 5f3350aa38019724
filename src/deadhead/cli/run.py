"""`deadhead run`: run the trials of a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import BadParameter, Option

from . import _options as opt
from . import _progress
from ._progress import print_json, size_text

if TYPE_CHECKING:
    from deadhead.studies import Result

LARGE = 100_000_000  # bytes of models that are worth a hint


def run(
    recipe: opt.RecipeName,
    out: opt.StudyOut,
    workers: opt.Workers = None,
    executor: Annotated[str, Option(help="What runs the trials: local, serial or ray.")] = "local",
    scale: opt.Scale = None,
    overrides: opt.Overrides = None,
    retry_failed: Annotated[
        bool, Option("--retry-failed", help="Also run failed trials again.")
    ] = False,
    data: opt.Data = None,
    threads: Annotated[
        int | None,
        Option(min=1, help="CPU threads per trial. Last digits depend on it.", show_default="1"),
    ] = None,
    address: Annotated[
        str | None,
        Option(help="With ray: the address of a cluster, or auto; by default a new local one."),
    ] = None,
    gpus: Annotated[float | None, Option(help="With ray: GPUs per trial, such as 0.25.")] = None,
    trial_timeout: Annotated[
        float | None,
        Option(metavar="SECONDS", help="Stop a trial that runs longer, and retry it once."),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Run all trials of a recipe that have no record yet.

    Ctrl-C finishes the running trials first; a second Ctrl-C stops at once. To resume, repeat the
    command.

    Examples:

        deadhead run weak-link/table4 --out table4 --workers 4

        deadhead run my.yaml --out study --set finetune.epochs=1 --set seed=[0,1]
    """
    # Longer than most functions: half of it is the list of options.
    from deadhead.report.check import load_recipe
    from deadhead.studies import run as run_study
    from deadhead.studies.plan import usual_workers

    chosen = load_recipe(recipe, overrides or (), scale)
    set_environment(data, threads)
    ray = {"address": address, "gpus": gpus}
    options = {name: value for name, value in ray.items() if value is not None}
    if options and executor != "ray":
        flags = " and ".join(f"--{name}" for name in options)
        raise BadParameter(f"{flags}: only with --executor ray")
    with _progress.study(chosen, quiet=as_json) as watch:
        result = run_study(
            chosen,
            out,
            workers=workers or usual_workers(chosen),
            executor=executor,
            retry_failed=retry_failed,
            watch=watch,
            options=options,
            trial_timeout=trial_timeout,
        )
    if as_json:
        print_json(vars(result))
    else:
        print_result(result, out)
    if result.failed or result.left:
        raise typer.Exit(1)


def set_environment(data: Path | None, threads: int | None = None) -> None:
    """Set the variables that workers inherit."""
    for name, value in (("DEADHEAD_DATA", data), ("DEADHEAD_THREADS", threads)):
        if value is not None:
            os.environ[name] = str(value)


def print_result(result: Result, out: Path) -> None:
    from deadhead.display.progress import clock
    from deadhead.studies import clean

    typer.echo(
        f"{result.done} of {result.total} done, {result.failed} failed, {result.left} left; "
        f"{result.ran} run in {clock(result.seconds)}."
    )
    if result.failed:
        typer.echo(
            f"To see what failed: deadhead status {out} --failures; to try again: --retry-failed."
        )
    if result.left:
        typer.echo("To resume, repeat the command.")
        return
    models, size = clean(out, dry=True)
    if size >= LARGE:
        typer.echo(
            f"{models} trained models that no trial needs take {size_text(size)}; "
            f"to delete them: deadhead clean {out}"
        )
