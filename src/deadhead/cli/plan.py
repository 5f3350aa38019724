"""`deadhead plan`: check a recipe and estimate its cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from ._options import AsJson, Data, Overrides, RecipeName, Scale, Workers
from ._progress import plural, print_json, size_text
from .run import set_environment

if TYPE_CHECKING:
    from deadhead.studies.plan import Plan


def plan(
    recipe: RecipeName,
    out: Annotated[
        Path | None,
        Option("--out", metavar="STUDY", help="Subtract the finished trials of this study folder."),
    ] = None,
    workers: Workers = None,
    scale: Scale = None,
    overrides: Overrides = None,
    data: Data = None,
    trials: Annotated[bool, Option("--trials", help="List the trials.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a recipe and estimate its cost: trials, shared trainings, time and disk. Runs nothing.

    Example:

        deadhead plan weak-link/table4 --set draw=[0]
    """
    from deadhead.report.check import load_recipe
    from deadhead.studies import plan as estimate
    from deadhead.studies.plan import usual_workers
    from deadhead.studies.recipe.load import with_inputs

    chosen = load_recipe(recipe, overrides or (), scale)
    set_environment(data)
    chosen = with_inputs(chosen)
    cost = estimate(chosen, out, workers or usual_workers(chosen))
    if as_json:
        listed = {"list": [{"id": t.id, **t.content} for t in chosen.trials]} if trials else {}
        print_json({**cost.to_dict(), **listed})
        return
    _print_plan(cost)
    for trial in chosen.trials if trials else ():
        fields = {name: value for name, value in trial.content.items() if name != "finetune"}
        typer.echo(f"{trial.id}  {json.dumps(fields, ensure_ascii=False)}")


def _print_plan(plan: Plan) -> None:
    from deadhead.display.progress import clock
    from deadhead.studies.store.records import damage

    done = f", {plan.done} of them done already" if plan.done else ""
    if plan.failed:
        done += f", {plan.failed} failed (`run --retry-failed` tries those again)"
    cells = f" for {plan.cells:,} cells" if plan.cells != plan.trials else ""
    typer.echo(f"{plan.name}: {plural(plan.trials, 'trial')}{cells}{done}.")
    shared = f", {plan.shared:,} of them shared by several trials" if plan.shared else ""
    work = f"{plural(plan.trainings, 'training')}{shared}; {plural(plan.rankings, 'ranking')}"
    typer.echo(f"  {work}.")
    typer.echo(f"  About {clock(plan.seconds)} and {size_text(plan.bytes)} of disk ({plan.basis}).")
    hours = {name: float(f"{number:.2g}") for name, number in plan.gpu_hours.items()}
    if max(hours.values()) >= 0.1:
        listed = ", ".join(f"{name} {number:,g} h" for name, number in hours.items())
        typer.echo(f"  On one GPU, roughly: {listed}.")
    lines = [damage(plan.damaged)] if plan.damaged else []
    lines += [
        *plan.warnings,
        *(f"{text}." for text in plan.other_data),
        *(f"Too little data: {text}" for text in plan.shortfalls),
    ]
    if plan.lacking:
        lines += ["Missing; `run` does not start without it:"]
        lines += [f"  {text}" for text in plan.lacking]
        lines += [f"Hint: {text}" for text in plan.hint]
    for text in lines:
        typer.secho(f"  {text}", fg="yellow")
