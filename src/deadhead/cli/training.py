"""`deadhead finetune`: learn a task. Parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadhead.errors import DeadheadError, unknown_name

from .data import Corpus, Length, MaxExamples, Root, TaskFile, TaskName, languages_of, needed_task
from .epochs import following, metric_words
from .loading import tokenizer_of
from .model_options import Auto, Device
from .outputs import Force, check_folder
from .rank import options_of

if TYPE_CHECKING:
    from deadhead.tasks import Dataset, Encoded, Task
    from deadhead.training import History, Settings
    from deadhead.training.start import Start

KEPT = ("last", "best")


def finetune(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder, pruned or not, or a name on the hub.",
            show_default=False,
        ),
    ],
    lang: Annotated[
        str,
        typer.Option(
            help="The language to learn from, such as en; several by commas.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write.", show_default=False)
    ],
    task: TaskName = None,
    task_file: TaskFile = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Passes over the data; by default 3.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="The highest learning rate; by default 3e-5.", show_default=False),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Examples in an update; by default 32.", show_default=False
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The settings of a paper, such as contributions."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Another setting, such as precision=bf16; can be given again.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of the new classifier, the order of the data and dropout; by default 0, or the paper's.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            help="Write the weights of the last epoch, or of the best on dev: last or best."
        ),
    ] = "last",
    data: Root = None,
    source: Corpus = None,
    max_examples: MaxExamples = None,
    max_length: Length = 256,
    auto: Auto = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Precision to write: float32, bfloat16, float16; by default that of MODEL. It trains in float32.",
        ),
    ] = None,
    device: Device = None,
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document instead of lines.")
    ] = False,
) -> None:
    """Learn a task: put a new classifier on a model, whole or pruned, and train it; one that knows the labels already goes on.

    After every epoch the dev data is scored and the state is kept in DIR/.training: a training that was killed resumes when
    the same command is given again.

    Examples:

        deadhead finetune bert-base-multilingual-cased --task pos --lang en --rate 5e-5 --out tagger

        deadhead prune bert-base-multilingual-cased --lowest 36 --ranking en.json --out start

        deadhead finetune start --task pos --lang en --rate 5e-5 --out smaller
    """
    known = needed_task(task, task_file)
    if weights not in KEPT:
        raise unknown_name("weights to write", weights, KEPT)
    from deadhead.device import device_named
    from deadhead.heads import save
    from deadhead.heads.model_class import dtype_named
    from deadhead.training.start import start
    from deadhead.training.unfinished import Unfinished

    under_way = Unfinished(out)
    check_folder(out, "--out", model=model, force=force, unfinished=under_way.begun)
    settings = _settings(
        preset, task, option or [], {"epochs": epochs, "rate": rate, "batch": batch, "seed": seed}
    )
    place, precision = device_named(device), None if dtype in (None, "auto") else dtype_named(dtype)
    asked: dict[str, Any] = {
        "MODEL": model,
        "--task": task or str(task_file),
        "--lang": lang,
        **settings.to_dict(),
    }
    asked |= {
        "--max-examples": max_examples,
        "--max-length": max_length,
        "--auto": auto,
        "--dtype": dtype,
        "--weights": weights,
    }
    _check(under_way, asked, force)
    chosen, dev, without = _data(
        known, languages_of(lang), {"root": data, "source": source}, max_examples, settings.seed
    )
    begun = start(model, chosen, settings.seed, auto)
    asked |= {"the data": chosen.fingerprint, "the weights of MODEL": begun.digest}
    _check(under_way, asked, force)
    tokenizer = tokenizer_of(model, begun.model)
    sets = _encoded(begun, tokenizer, {"train": chosen, **dev}, max_length)
    if not dev and weights == "best":
        raise DeadheadError(
            f"--weights best needs dev data, and there is none: {without}.", "leave --weights out"
        )
    for line in without:
        typer.echo(line, err=True)
    under_way.begin(asked)
    history = _trained(begun, sets, settings, place, under_way)
    if weights == "best":
        history.restore(begun.model, "best")
    learnt = f"{chosen.task.name} in {chosen.lang}: {len(chosen):,} examples, {len(history.epochs)} epochs"
    save(begun.lower(precision), out, tokenizer, note=f"Fine-tuned with deadhead on {learnt}.")
    under_way.discard()
    _report(history, begun, chosen, dev, without, out, weights, as_json)


def _settings(
    preset: str | None, task: str | None, option: list[str], given: dict[str, Any]
) -> Settings:
    from deadhead.training import Settings
    from deadhead.training import preset as paper

    named = {name: value for name, value in given.items() if value is not None}
    others = options_of(option)
    for name in named.keys() & others.keys():
        raise typer.BadParameter(f"{name} is given twice", param_hint="--option")
    return (
        Settings.from_dict(named | others)
        if preset is None
        else paper(preset, task, **named, **others)
    )


def _check(under_way: Any, asked: dict[str, Any], force: bool) -> None:
    """Refuse what another command began, or with --force, forget it."""
    try:
        under_way.check(asked)
    except DeadheadError:
        if not force:
            raise
        under_way.discard()


def _data(
    task: str | Task, languages: list[str], where: dict[str, Any], most: int | None, seed: int
) -> tuple[Dataset, dict[str, Dataset], list[str]]:
    """The training data, the dev data by language, and a line for each language that has none."""
    from deadhead.tasks import draw_examples, find_data, load_data

    train = load_data(task, languages[0] if len(languages) == 1 else languages, "train", **where)
    dev, without = {}, []
    for language in languages:
        place = find_data(task, language, ["dev"], **where)["dev"]
        if isinstance(place, str):
            dev[language] = draw_examples(load_data(task, language, "dev", **where), most, seed)
        else:
            without.append(
                f"no dev data of {train.task.name} in {language}, so its epochs are not scored ({place.message.rstrip('.')})"
            )
    return draw_examples(train, most, seed), dev, without


def _encoded(
    begun: Start, tokenizer: Any, sets: dict[str, Dataset], max_length: int
) -> dict[str, Encoded]:
    """The training data in numbers, with the labels in the model's order, and the dev data alike."""
    from deadhead.tasks import encode
    from deadhead.training.labels import model_labels

    labels = model_labels(begun.model, sets["train"])
    return {
        name: encode(data, tokenizer, max_length=max_length, labels=labels)
        for name, data in sets.items()
    }


def _trained(
    begun: Start, sets: dict[str, Encoded], settings: Settings, place: Any, under_way: Any
) -> History:
    """Train, or go on from where it was stopped."""
    from deadhead.training import finetune as train

    done = under_way.epochs
    if done:
        typer.echo(f"resuming after epoch {done} of {settings.epochs}", err=True)
    dev = {name: one for name, one in sets.items() if name != "train"}
    try:
        with following(settings.epochs) as (update, each):
            history = train(
                begun.model,
                sets["train"],
                settings,
                dev=dev or None,
                folder=under_way.path,
                device=place,
                progress=update,
                each=each,
            )
    except KeyboardInterrupt:
        typer.echo(
            f"stopped after epoch {under_way.epochs} of {settings.epochs}; give the same command again to resume",
            err=True,
        )
        raise
    if history.state != "done":
        under_way.give_up()
        raise DeadheadError(f"the training failed: {history.reason}", "try a lower --rate")
    return history


def _report(
    history: History,
    begun: Start,
    chosen: Dataset,
    dev: dict[str, Dataset],
    without: list[str],
    out: Path,
    weights: str,
    as_json: bool,
) -> None:
    losses, seconds = (
        [epoch.loss for epoch in history.epochs],
        sum(epoch.seconds for epoch in history.epochs),
    )
    written = str(next(begun.model.parameters()).dtype).removeprefix("torch.")
    if as_json:
        facts = {
            "out": str(out),
            "examples": len(chosen),
            "fingerprint": chosen.fingerprint,
            "settings": history.settings.to_dict(),
        }
        scored = {
            "dev": {name: len(one) for name, one in dev.items()},
            "metric": history.metric,
            "scores": [epoch.scores for epoch in history.epochs],
            "best": history.best if history.metric else None,
            "weights": weights,
            "dtype": written,
            "notes": [
                *without,
                *history.notes,
                *(f"{name}: {count}" for name, count in chosen.notes.items()),
            ],
        }
        typer.echo(
            json.dumps(
                {**facts, "losses": losses, "seconds": round(seconds, 1), **scored}, indent=1
            )
        )
        return
    told = ", ".join(f"{loss:.3f}" for loss in losses)
    typer.echo(
        f"{len(chosen):,} examples, {len(losses)} epoch{'s' if len(losses) > 1 else ''}, mean loss {told}; {seconds:,.0f} s, in {out}"
    )
    if history.metric:
        each = "; ".join(metric_words(epoch.scores) for epoch in history.epochs)
        typer.echo(
            f"dev ({sum(map(len, dev.values())):,} examples): {each}; best after epoch {history.best}"
        )
    source = str(begun.dtype).removeprefix("torch.")
    typer.echo(
        f"the weights of the {weights} epoch, "
        + (f"trained in float32, written in {written}" if written != "float32" else "in float32")
        + (", as in MODEL" if written == source else f" (MODEL has {source})")
    )
    for note in [*history.notes, *(f"{name}: {count}" for name, count in chosen.notes.items())]:
        typer.echo(note)
