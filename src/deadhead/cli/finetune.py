"""`deadhead finetune`: train a model on a task."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter, Option

from deadhead.errors import unknown_name
from deadhead.files.hub import located

from . import _options as opt
from . import _progress
from ._outputs import check_folder

if TYPE_CHECKING:
    from deadhead.saved.finetune import Sets, Start
    from deadhead.training import History, Settings


def finetune(
    model: opt.Model,
    out: opt.ModelOut,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    teacher: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Learn the outputs of this model instead of labels, for instance of the model "
            "before pruning.",
            callback=located,
        ),
    ] = None,
    text: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --teacher, plain text instead of a task: one text per line; " + opt.LINES,
        ),
    ] = None,
    epochs: Annotated[
        int | None, Option(metavar="N", min=1, help="Passes over the data; by default 3.")
    ] = None,
    rate: Annotated[
        float | None, Option("--learning-rate", help="The highest learning rate; by default 3e-5.")
    ] = None,
    batch: Annotated[
        int | None,
        Option("--batch-size", metavar="N", min=1, help="Examples per update; by default 32."),
    ] = None,
    lora: Annotated[
        int | None,
        Option(
            metavar="RANK",
            min=1,
            help="Train LoRA adapters of this rank beside the frozen weights, and merge them into "
            "the saved model; --learning-rate is then 2e-4 by default.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        Option(metavar="NAME", help="Use the settings of a paper, such as contributions."),
    ] = None,
    option: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE", help="Another setting, such as precision=bf16; can be repeated."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Option(
            help="The random seed of the new classifier, the order of the data and dropout; "
            "by default 0, or that of the preset."
        ),
    ] = None,
    weights: Annotated[
        str, Option(help="The epoch to save: last, or best (on the dev data).")
    ] = "last",
    data: opt.Data = None,
    source: opt.Corpus = None,
    max_examples: opt.MaxExamples = None,
    max_length: opt.Length = None,
    auto: opt.Auto = None,
    dtype: Annotated[
        str | None,
        Option(
            metavar="TYPE",
            help="Precision of the saved weights: float32, bfloat16 or float16; "
            "by default that of MODEL. Training uses float32.",
        ),
    ] = None,
    device: opt.Device = None,
    checkpointing: opt.Checkpointing = False,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Train a model on a task, or on the outputs of a teacher. It keeps a classifier that fits.

    After every epoch it scores the dev data and saves its state in DIR/.training. To resume an
    interrupted training, repeat the command. With --teacher it does neither.

    Examples:

        deadhead finetune bert-base-multilingual-cased --task pos --lang en --out tagger

        deadhead prune bert-base-multilingual-cased --remove-lowest 36 --ranking en.json --out start

        deadhead finetune start --task pos --lang en --learning-rate 5e-5 --out smaller

        deadhead finetune start --task pos --lang en --lora 8 --out smaller

        deadhead finetune start --task pos --lang en --teacher tagger --out smaller
    """
    # Longer than most functions: half of it is the list of options.
    from deadhead.heads.model_class import dtype_named
    from deadhead.numerics import device_named
    from deadhead.training.history import SAVED

    if weights not in SAVED:
        raise unknown_name("weights to write", weights, SAVED)
    flags = {"epochs": epochs, "rate": rate, "batch": batch, "seed": seed}
    options = opt.options_from(option)
    where = {"root": data, "source": source}
    if text is not None and teacher is None:
        raise BadParameter("goes with --teacher: plain text has no labels", param_hint="--text")
    files = None if text is None else [text]
    known, languages = opt.task_or_text(task, lang, files)
    precision = None if dtype in (None, "auto") else dtype_named(dtype)
    how: dict[str, Any] = {"auto": auto, "device": device_named(device), "max_length": max_length}
    if teacher is not None:
        from deadhead.saved.rank_data import sample

        _check_distillation(preset, lora, weights, checkpointing, options)
        check_folder(out, "--out", model=model, force=force)
        rows = sample(known, languages, "train", files, most=max_examples, seed=seed or 0, **where)
        settings = _settings(None, None, options, flags)
        _distill(model, teacher, rows, settings, out, as_json=as_json, dtype=precision, **how)
        return
    assert known is not None  # for mypy
    from deadhead.saved.finetune import Listener, Output, Unfinished, finetune_saved, load_sets
    from deadhead.training.lora import RATE, check_installed

    unfinished = Unfinished(out)
    check_folder(out, "--out", model=model, force=force, resumes=unfinished.begun)
    if lora is not None:
        check_installed()
        if preset is None and "rate" not in options:
            flags["rate"] = rate or RATE
    settings = _settings(preset, task, options, flags)
    command: dict[str, Any] = {"MODEL": model, "--task": task, "--lang": lang}
    command |= {**settings.to_dict(), "--max-examples": max_examples, "--max-length": max_length}
    command |= {"--auto": auto, "--dtype": dtype, "--weights": weights, "--lora": lora}
    unfinished.check(command, force=force)
    sets = load_sets(known, languages, where, max_examples, settings.seed)
    target = Output(folder=out, weights=weights, dtype=precision, force=force)
    with _progress.training(settings.epochs) as (update, epoch):
        start, history = finetune_saved(
            model,
            sets,
            settings,
            target,
            command=command,
            listener=Listener(update=update, epoch=epoch, say=partial(typer.echo, err=True)),
            lora=lora,
            checkpointing=checkpointing,
            **how,
        )
    facts = _facts(start, history, sets, out, weights)
    if as_json:
        _progress.print_json(facts)
    else:
        typer.echo("\n".join(_lines(facts, sets)))


def _check_distillation(
    preset: str | None, lora: int | None, weights: str, checkpointing: bool, options: dict[str, Any]
) -> None:
    """Refuse what a training on the outputs of a teacher cannot do."""
    from deadhead.saved.distill import USED

    refused = {"--preset": preset, "--lora": lora, "--gradient-checkpointing": checkpointing}
    refused |= {"--weights": weights == "best"}
    for name, value in refused.items():
        if value:
            raise BadParameter("does not go with --teacher: leave it out", param_hint=name)
    for name in options:
        if name not in USED:
            raise unknown_name("setting of a training with --teacher", name, USED)


def _distill(
    model: str, teacher: str, rows: Any, settings: Settings, out: Path, *, as_json: bool, **how: Any
) -> None:
    from deadhead.saved.distill import distill_saved

    result = distill_saved(model, teacher, rows, settings, out, **how)
    facts: dict[str, Any] = {"out": str(out), "teacher": teacher, "settings": settings.to_dict()}
    facts |= {"losses": result.losses, "dtype": result.dtype, **result.facts}
    if as_json:
        _progress.print_json(facts)
        return
    losses = ", ".join(f"{loss:.4f}" for loss in result.losses)
    epochs = _progress.plural(len(result.losses), "epoch")
    typer.echo(f"{result.facts['examples']:,} examples, {epochs}, in {out}")
    typer.echo(f"mean distance to the outputs of {teacher}: {losses}")
    for note, count in result.facts["notes"].items():
        typer.echo(f"{note}: {count:,}")


def _settings(
    preset: str | None, task: str | None, options: dict[str, Any], flags: dict[str, Any]
) -> Settings:
    from deadhead import training

    flags = {name: value for name, value in flags.items() if value is not None}
    for name in flags.keys() & options.keys():
        raise BadParameter(f"{name} is given twice", param_hint="--option")
    if preset is None:
        return training.Settings.from_dict(flags | options)
    return training.preset(preset, task, **flags, **options)


def _facts(start: Start, history: History, sets: Sets, out: Path, weights: str) -> dict[str, Any]:
    from deadhead.saved.finetune import trained_examples

    counts = [f"{name}: {count}" for name, count in sets.train.notes.items()]
    return {
        "out": str(out),
        "examples": trained_examples(sets.train, history),
        "fingerprint": sets.train.fingerprint,
        "settings": history.settings.to_dict(),
        "losses": [epoch.loss for epoch in history.epochs],
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 1),
        "dev": {name: len(data) for name, data in sets.dev.items()},
        "metric": history.metric,
        "scores": [epoch.scores for epoch in history.epochs],
        "best": history.best if history.metric else None,
        "weights": weights,
        "dtype": str(next(start.model.parameters()).dtype).removeprefix("torch."),
        "notes": [*sets.notes, *history.notes, *counts],
    }


def _lines(facts: dict[str, Any], sets: Sets) -> list[str]:
    losses = ", ".join(f"{loss:.3f}" for loss in facts["losses"])
    epochs = _progress.plural(len(facts["losses"]), "epoch")
    lines = [
        f"{facts['examples']:,} examples, {epochs}, mean loss {losses}; "
        f"{facts['seconds']:,.0f} s, in {facts['out']}"
    ]
    if facts["metric"]:
        scores = "; ".join(_progress.scores_text(epoch) for epoch in facts["scores"])
        size = sum(facts["dev"].values())
        is_text = sets.train.task.traits.label_unit == "token"  # its examples are windows
        dev = _progress.plural(size, "text" if is_text else "example")
        lines.append(f"dev ({dev}): {scores}; best after epoch {facts['best']}")
    weights, dtype = facts["weights"], facts["dtype"]
    lines.append(f"the weights of the {weights} epoch, trained in float32, written in {dtype}")
    return lines + facts["notes"][len(sets.notes) :]  # the others were printed before the training
