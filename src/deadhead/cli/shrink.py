"""`deadhead shrink`: make a model smaller without training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter, Option

from deadhead.errors import deprecated
from deadhead.shrinking import REPAIRS, check_method, kinds_of, method_names, read_targets

from . import _options as opt
from ._outputs import check_folder
from ._progress import size_text

LATER = "Of a training afterwards: use deadhead finetune."

if TYPE_CHECKING:
    from deadhead.saved.shrink import ShrunkSaved
    from deadhead.tasks import Task
    from deadhead.training import Settings


def shrink(
    model: opt.Model,
    out: opt.ModelOut,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    text: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Plain text instead of a task: one text per line, or two separated by a tab; "
            + opt.LINES,
        ),
    ] = None,
    remove_heads: Annotated[
        str | None, Option(metavar="SHARE|N", help="Remove this share or number of heads: 75%.")
    ] = None,
    remove_neurons: Annotated[
        str | None, Option(metavar="SHARE|N", help="Remove this share or number of neurons: 50%.")
    ] = None,
    keep_macs: Annotated[
        str | None,
        Option(metavar="SHARE", help="Keep this share of the layers' multiply-accumulates: 50%."),
    ] = None,
    keep_parameters: Annotated[
        str | None, Option(metavar="SHARE", help="Keep this share of all parameters: 70%.")
    ] = None,
    speedup: Annotated[
        float | None, Option(metavar="X", help="Run this many times as fast on this machine: 1.5.")
    ] = None,
    on: Annotated[
        str | None,
        Option(
            metavar="BATCHxLENGTH",
            help="The shape of the inputs to time, and to count --keep-macs on; by default 32x128.",
        ),
    ] = None,
    method: Annotated[
        str, Option(help=f"How to choose what goes: {', '.join(method_names())}.")
    ] = "auto",
    repair: Annotated[
        str, Option(help=f"How to repair the layers after the cut: {', '.join(REPAIRS)}.")
    ] = "refit",
    loss: Annotated[
        str | None,
        Option(
            metavar="self",
            help="Choose without labels: the loss is the distance to the outputs of the model.",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        Option(
            metavar="N",
            min=3,
            help="Read this many random examples to choose and to repair; by default 4,000 on a "
            "GPU and 1,000 elsewhere, which takes a minute or two.",
        ),
    ] = None,
    split: Annotated[
        str, Option(help="The split of the data to choose and repair with: train, dev or test.")
    ] = "train",
    score_examples: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Score N random examples of each data set; by default all of them.",
        ),
    ] = None,
    then_finetune: Annotated[bool, Option("--then-finetune", hidden=True, help=LATER)] = False,
    then_distill: Annotated[bool, Option("--then-distill", hidden=True, help=LATER)] = False,
    epochs: Annotated[int | None, Option(min=1, hidden=True, help=LATER)] = None,
    learning_rate: Annotated[float | None, Option(hidden=True, help=LATER)] = None,
    data: opt.Data = None,
    source: opt.Corpus = None,
    batch: opt.Batch = None,
    max_length: opt.Length = None,
    seed: opt.Seed = 0,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    checkpointing: opt.Checkpointing = False,
    form: opt.Form = "compact",
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Make a model smaller without training: remove heads and neurons, and repair the rest.

    Give one target, or --remove-heads and --remove-neurons together. The scores before and after
    are those of the dev data of the task, or of its test data where there is none. To train the
    smaller model afterwards: deadhead finetune.

    Examples:

        deadhead shrink ./pos-en --task pos --lang en --remove-heads 75% --out smaller

        deadhead shrink ./pos-en --task pos --lang en --speedup 1.5 --on 32x128 --out faster

        deadhead shrink ./pos-en --task pos --lang en --keep-macs 50% --out half

        deadhead shrink ./all-MiniLM-L6-v2 --text texts.txt --loss self --remove-heads 50% --out small
    """
    # Longer than most functions: half of it is the list of options. All of them are checked first,
    # since a mistake should not cost the time to load a model.
    chosen = _task(task, lang, text, then_distill)
    if chosen is None and score_examples is not None:
        message = "counts scored examples of a task; --examples N reads N texts of --text"
        raise BadParameter(message, param_hint="--score-examples")
    options: dict[str, Any] = {"heads": remove_heads, "neurons": remove_neurons}
    options |= {"macs": keep_macs, "parameters": keep_parameters, "speedup": speedup}
    check_method(method, kinds_of(read_targets(options)), loss)
    REPAIRS[repair]  # or raise that there is none
    options |= {
        "on": None if on is None else opt.shape_from(on),
        "method": method,
        "repair": repair,
    }
    options |= {"loss": loss, "seed": seed, "checkpointing": checkpointing}
    then = _then(then_finetune, then_distill)
    settings = _settings(then, out, epochs, learning_rate, seed)
    check_folder(out, "--out", model=model, force=force)
    from deadhead.numerics import device_named
    from deadhead.saved.shrink import Calibration, shrink_saved
    from deadhead.shrinking.calibration import examples_on

    where = device_named(device)
    calibration = Calibration(
        task=chosen,
        languages=[] if chosen is None else opt.languages_from(lang, chosen),
        text=text,
        split=split,
        examples=examples_on(where) if examples is None else examples,
        scored=score_examples,
        where={"root": data, "source": source},
        batch=batch,
        max_length=max_length,
        seed=seed,
    )
    result = shrink_saved(
        model,
        out,
        calibration,
        options,
        then=then,
        settings=settings,
        auto=auto,
        dtype=dtype,
        device=where,
        form=form,
    )
    if as_json:
        used = {name: value for name, value in options.items() if value is not None}
        facts = {"model": model, "out": str(out), "form": form, "options": used}
        typer.echo(json.dumps({**facts, **result.to_dict()}, indent=1))
    else:
        _print(result, out)


def _task(
    task: str | None, lang: str | None, text: Path | None, distils: bool
) -> str | Task | None:
    """The task, or None for plain text alone."""
    if task is None and text is not None:
        return None
    if task is None:
        message = "give --task NAME or --task FILE.yaml, or --text FILE with --loss self"
        raise BadParameter(message, param_hint="--task")
    if text is not None and not distils:
        raise BadParameter("give --text FILE instead of a task", param_hint="--text")
    return opt.required_task(task)


def _then(finetune: bool, distill: bool) -> str | None:
    if finetune and distill:
        raise BadParameter("give --then-finetune or --then-distill", param_hint="--then-distill")
    return "finetune" if finetune else "distill" if distill else None


def _settings(
    then: str | None, out: Path, epochs: int | None, rate: float | None, seed: int
) -> Settings | None:
    """The settings of a training afterwards, which is a command of its own now."""
    if then is None:
        for name, value in (("--epochs", epochs), ("--learning-rate", rate)):
            if value is not None:
                message = "is for a training: shrink first, then deadhead finetune"
                raise BadParameter(message, param_hint=name)
        return None
    teacher = " --teacher MODEL" if then == "distill" else ""
    deprecated(f"shrink --then-{then}", f"a second command, deadhead finetune {out}{teacher}")
    from deadhead.training import Settings

    settings = Settings(epochs=epochs or 1, seed=seed)
    return settings if rate is None else replace(settings, rate=rate)


def _print(result: ShrunkSaved, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from deadhead.tasks import points_text

    report = result.report
    stages = ["whole", "cut", "refitted", *([result.trained] if result.trained else [])]
    table = Table("", *stages)
    for language, split in result.splits.items():
        values = [result.scores[stage][language] for stage in stages]
        texts = (points_text(str(result.metric), value) for value in values)
        table.add_row(f"{result.metric} {language} {split}", *texts)
    losses = [f"{report.losses[stage]:z.4f}" for stage in ("whole", "cut", "refitted")]
    kind = "" if report.loss == "labels" else f" ({report.loss})"
    table.add_row(f"held-out loss{kind}", *losses)
    sizes = Table("", "before", "after", "")
    for name, (before, after) in report.sizes.items():
        if before:
            label = "multiply-accumulates" if name == "macs" else name
            sizes.add_row(label, f"{before:,}", f"{after:,}", f"{after / before:.1%}")
    whole, small = result.milliseconds
    run = "ms for {} x {}".format(*report.shape)
    sizes.add_row(run, f"{whole:.1f}", f"{small:.1f}", f"{whole / small:.2f} times as fast")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(sizes)
    if report.speed is not None:
        console.print(
            f"speed-up: {report.speed.target:.2f} is the target, {report.speed.predicted:.2f} "
            f"predicted, {report.speed.measured:.2f} measured"
        )
    methods = " and ".join(f"{kind} by {name}" for kind, name in report.choice.method.items())
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in report.seconds.items())
    examples = "{:,} examples to choose and refit, {:,} held out".format(*report.examples)
    scored = "".join(
        f"; {count:,} of {language} {result.splits[language]} scored"
        for language, count in result.scored.items()
    )
    console.print(f"{methods}; {examples}{scored}; {seconds}")
    if report.tried:
        tried = ", ".join(f"{name} {value:z.4f}" for name, value in report.tried.items())
        console.print(f"held-out loss after the refit of each method tried: {tried}")
    counts = [f"{name}: {count:,}" for name, count in result.facts["notes"].items()]
    for note in [*report.notes, *counts]:
        console.print(note, markup=False)
    console.print(f"written to {out}: {size_text(result.bytes)} of weights in {result.dtype}")
