"""`deadhead finetune` and `deadhead evaluate`: learn a task, and see what models score on it. Parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DataError, DeadheadError
from .data import Length, Root, TaskFile, TaskName, languages_of, needed_task
from .loading import tokenizer_of
from .outputs import Force, check_folder
from .rank import options_of

if TYPE_CHECKING:
    from ..tasks import Dataset

Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")]


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder, pruned or not, or a name on the hub.", show_default=False)],
    lang: Annotated[str, typer.Option(help="The language to learn from, such as en; several by commas.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.", show_default=False)],
    task: TaskName = None,
    task_file: TaskFile = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Passes over the data; by default 3.", show_default=False)] = None,
    rate: Annotated[float | None, typer.Option(help="The highest learning rate; by default 3e-5.", show_default=False)] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", min=1, help="Examples in an update; by default 32.", show_default=False)] = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help="The settings of a paper, such as contributions.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Another setting, such as precision=bf16; can be given again.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Of the new classifier, the order of the data and dropout; by default 0, or the paper's.", show_default=False),
    ] = None,
    data: Root = None,
    max_length: Length = 256,
    device: Device = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a line.")] = False,
) -> None:
    """Learn a task: put a new classifier on a model, whole or pruned, and train it; one that knows the labels already goes on.

    Examples:

        deadhead finetune bert-base-multilingual-cased --task pos --lang en --rate 5e-5 --out tagger

        deadhead prune bert-base-multilingual-cased --lowest 36 --ranking en.json --out start

        deadhead finetune start --task pos --lang en --rate 5e-5 --out smaller
    """
    known = needed_task(task, task_file)
    check_folder(out, "--out", model=model, force=force)
    from ..finetune import Settings
    from ..finetune import finetune as train
    from ..finetune import preset as paper
    from ..heads import save
    from ..heads.kernels import device_named
    from ..tasks import encode, load_data
    from ..training.labels import model_labels

    given = {name: value for name, value in (("epochs", epochs), ("rate", rate), ("batch", batch), ("seed", seed)) if value is not None}
    others = options_of(option or [])
    for name in given.keys() & others.keys():
        raise typer.BadParameter(f"{name} is given twice", param_hint="--option")
    given |= others
    settings = Settings.from_dict(given) if preset is None else paper(preset, task, **given)
    place = device_named(device)
    languages = languages_of(lang)
    chosen = load_data(known, languages[0] if len(languages) == 1 else languages, "train", root=data)
    loaded, tokenizer = _learner(model, chosen, settings.seed)
    encoded = encode(chosen, tokenizer, max_length=max_length, labels=model_labels(loaded, chosen))
    history = train(loaded, encoded, settings, device=place)
    if history.state != "done":
        raise DeadheadError(f"the training failed: {history.reason}", "try a lower --rate")
    save(loaded, out, tokenizer)
    losses = [epoch.loss for epoch in history.epochs]
    seconds = sum(epoch.seconds for epoch in history.epochs)
    if as_json:
        facts = {"out": str(out), "examples": len(chosen), "fingerprint": chosen.fingerprint, "settings": settings.to_dict()}
        typer.echo(json.dumps({**facts, "losses": losses, "seconds": round(seconds, 1)}, indent=1))
    else:
        told = ", ".join(f"{loss:.3f}" for loss in losses)
        typer.echo(
            f"{len(chosen):,} examples, {len(losses)} epoch{'s' if len(losses) > 1 else ''}, mean loss {told}; {seconds:,.0f} s, in {out}"
        )


def _learner(name: str, data: Dataset, seed: int) -> tuple[Any, Any]:
    """The model with a classifier for these labels: its own, where it has learnt them, else a new one, drawn by the seed."""
    import torch
    import transformers

    from ..heads import load
    from ..tasks import KINDS

    auto = getattr(transformers, KINDS[data.task.kind].model)

    def made(**labels: Any) -> Any:
        torch.manual_seed(seed)
        return load(name, auto=auto, dtype=torch.float32, **labels)

    model = made()
    known = [*map(str, (getattr(model.config, "id2label", None) or {}).values())]
    if KINDS[data.task.kind].labels != "text" and not set(known) >= set(data.labels):
        named = known != [f"LABEL_{i}" for i in range(len(known))]
        if named and type(model).__name__ in (model.config.architectures or ()):  # as many other labels would take their places
            raise DataError(
                f"{name} has learnt other labels ({', '.join(known[:4])}{', ...' if len(known) > 4 else ''}) than those of {data.task.name}.",
                "name the model as it was before it learnt another task",
            )
        model = made(id2label=dict(enumerate(data.labels)), label2id={label: i for i, label in enumerate(data.labels)})
    return model, tokenizer_of(name, model)
