"""`deadhead shrink`: make a model smaller without training."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

from deadhead.shrinking import REPAIRS, method_names

from . import _options as opt
from ._outputs import check_folder
from ._progress import print_json, size_text

if TYPE_CHECKING:
    from rich.table import Table

    from deadhead.saved.shrink import ShrunkSaved
    from deadhead.shrinking import Shrunk
    from deadhead.vocabulary import Trimmed


def shrink(
    model: opt.Model,
    out: opt.ModelOut,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    text: opt.Texts = None,
    remove_layers: Annotated[
        str | None,
        Option(
            metavar="SHARE|N|LIST",
            help="Remove whole layers: 25%, 3, or those of a list: 3,7 or decoder.3. Alone, or "
            "before another target.",
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
        str | None,
        Option(
            metavar="SHARE",
            help="Keep this share of all parameters: 70%. Removes whole layers too if that loses "
            "less, as do the next two; --remove-layers 0 keeps all.",
        ),
    ] = None,
    keep_megabytes: Annotated[
        str | None, Option(metavar="N", help="Keep this many megabytes of weights: 120.")
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
    even: Annotated[
        bool,
        Option(
            "--even",
            help="Keep the same number of heads and neurons in every layer. Where the class of the "
            "model has a config for it, the folder is an ordinary one, and the output says so.",
        ),
    ] = False,
    multiple: Annotated[
        int | None,
        Option(
            metavar="N", help="Keep heads and neurons of each layer in multiples of N: 64 or 8."
        ),
    ] = None,
    vocabulary: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Remove the tokens that the texts of this file do not need, one text per line; "
            "can be repeated. Alone it needs no data. The tokens count in --keep-parameters, "
            "--keep-megabytes and --speedup.",
        ),
    ] = None,
    method: Annotated[
        str,
        Option(
            help=f"How to choose what goes: {', '.join(method_names())}; for layers auto (greedy) "
            "or similarity."
        ),
    ] = "auto",
    repair: Annotated[
        str, Option(help=f"How to repair the layers after the cut: {', '.join(REPAIRS)}.")
    ] = "refit",
    loss: opt.Loss = None,
    guard: Annotated[
        bool,
        Option(
            "--guard/--no-guard",
            help="Fit to bundled general texts too, half as many as --examples but at most as many "
            "as yours: they keep the model sound on text unlike yours. They take longer than short "
            "texts. --no-guard only measures some.",
        ),
    ] = True,
    examples: Annotated[
        int | None,
        Option(
            metavar="N",
            min=3,
            help="Read this many random examples to choose and to repair; by default 4,000 on a "
            "GPU and 1,000 elsewhere, which takes a minute or two.",
        ),
    ] = None,
    split: opt.Split = "train",
    score_examples: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Score N random examples of each data set; by default all of them.",
        ),
    ] = None,
    data: opt.Data = None,
    source: opt.Corpus = None,
    batch: opt.BatchSize = None,
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
    """Make a model smaller without training: remove parts of it, and repair the rest.

    Give one target, with --remove-layers and --vocabulary if you like; --remove-heads and
    --remove-neurons go together. The scores before and after are those of the dev data of the task,
    or of its test data where there is none. To train the smaller model afterwards: deadhead
    finetune.

    Examples:

        deadhead shrink ./pos-en --task pos --lang en --remove-heads 75% --out smaller

        deadhead shrink ./pos-en --task pos --lang en --remove-layers 3 --out shallower

        deadhead shrink ./pos-en --task pos --lang en --speedup 1.5 --on 32x128 --out faster

        deadhead shrink ./pos-en --task pos --lang en --keep-megabytes 120 --out small

        deadhead shrink ./pos-en --task pos --lang en --keep-macs 50% --out half

        deadhead shrink ./pos-en --task pos --lang en --remove-neurons 50% --even --out even

        deadhead shrink ./all-MiniLM-L6-v2 --text texts.txt --keep-macs 50% --out half

        deadhead shrink ./pos-en --vocabulary english.txt --out english
    """
    # Longer than most functions: half of it is the list of options. All of them are checked first,
    # since a mistake should not cost the time to load a model.
    targets = (remove_layers, remove_heads, remove_neurons, keep_macs, keep_parameters)
    if vocabulary and all(target is None for target in (*targets, keep_megabytes, speedup)):
        if text or any(value is not None for value in (task, lang)):
            raise BadParameter("reads no data without another target", param_hint="--vocabulary")
        check_folder(out, "--out", model=model, force=force)
        _trim(model, out, vocabulary, as_json, auto=auto, dtype=dtype, form=form)
        return
    chosen, languages = opt.task_or_text(task, lang, text)
    if chosen is None and score_examples is not None:
        message = "counts scored examples of a task; --examples N reads N texts of --text"
        raise BadParameter(message, param_hint="--score-examples")
    options: dict[str, Any] = {"heads": remove_heads, "neurons": remove_neurons}
    options |= {"layers": remove_layers, "even": even, "multiple": multiple}
    options |= {"macs": keep_macs, "parameters": keep_parameters, "speedup": speedup}
    options |= {"megabytes": keep_megabytes}
    options |= {"on": None if on is None else opt.shape_from(on), "method": method}
    options |= {"repair": repair, "loss": loss, "seed": seed, "checkpointing": checkpointing}
    check_folder(out, "--out", model=model, force=force)
    from deadhead.numerics import device_named
    from deadhead.saved.shrink import ShrinkData, shrink_saved
    from deadhead.shrinking.held_out import examples_on

    where = device_named(device)
    calibration = ShrinkData(
        task=chosen,
        languages=languages,
        text=text or (),
        guard=guard,
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
        vocabulary=vocabulary or (),
        auto=auto,
        dtype=dtype,
        device=where,
        form=form,
    )
    if as_json:
        used = {name: value for name, value in options.items() if value is not None}
        facts = {"model": model, "out": str(out), "form": form, "options": used}
        print_json({**facts, **result.to_dict()})
    else:
        _print(result, out)


def _trim(model: str, out: Path, files: list[Path], as_json: bool, **how: Any) -> None:
    """Trim the vocabulary alone."""
    from rich.console import Console
    from rich.table import Table

    from deadhead.saved.vocabulary import trim_saved

    result = trim_saved(model, out, files, **how)
    if as_json:
        print_json({"model": model, "out": str(out), "form": how["form"], **result.to_dict()})
        return
    sizes = Table("", "before", "after", "")
    rows = {"tokens": result.trimmed.tokens, "parameters": result.parameters}
    for name, (before, after) in {**rows, "megabytes": result.megabytes}.items():
        sizes.add_row(name, f"{before:,}", f"{after:,}", f"{after / before:.1%}")
    console = Console(highlight=False, soft_wrap=True)
    console.print(sizes)
    console.print(_changed(result.trimmed))
    console.print(f"written to {out}: {size_text(result.bytes)} of weights in {result.dtype}")


def _changed(trimmed: Trimmed) -> str:
    text = "new texts: too few texts to estimate how many would be encoded otherwise"
    if trimmed.changed is not None:
        share = f"{trimmed.changed:.1%}"
        text = f"new texts: about {share} would be encoded otherwise (of held-out texts)"
    if trimmed.unknown:
        text += f"; the tokenizer does not know {trimmed.unknown:.1%} of the tokens of the texts"
    return text


def _print(result: ShrunkSaved, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from deadhead.shrinking.shrunk import STAGES
    from deadhead.tasks import points_text
    from deadhead.tasks.reading.lines import shorten

    report = result.report
    table = Table("", *STAGES)
    for language, split in result.splits.items():
        values = [result.scores[stage][language] for stage in STAGES]
        texts = (points_text(str(result.metric), value) for value in values)
        table.add_row(f"{result.metric} {language} {split}", *texts)
    losses = [f"{report.losses[stage]:z.4f}" for stage in STAGES]
    kind = "" if report.loss == "labels" else f" ({report.loss})"
    table.add_row(f"held-out loss{kind}", *losses)
    sizes = Table("", "before", "after", "")
    for name, (before, after) in report.sizes.items():
        if before:
            label = "multiply-accumulates" if name == "macs" else name
            sizes.add_row(label, f"{before:,}", f"{after:,}", f"{after / before:.1%}")
    full, small = result.megabytes
    sizes.add_row("megabytes", f"{full:,.1f}", f"{small:,.1f}", f"{small / full:.1%}")
    whole, small = result.milliseconds
    run = "ms for {} x {}".format(*report.shape)
    sizes.add_row(run, f"{whole:.1f}", f"{small:.1f}", f"{whole / small:.2f} times as fast")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(sizes)
    if len(result.parts) > 1:
        console.print(_parts(result))
    if report.speed is not None:
        console.print(f"speed-up: {report.speed}")
        if (speedup := report.speed.next_target) is not None:
            missed = 1 - report.speed.measured / report.speed.target
            console.print(
                f"the speed-up was missed by {missed:.0%}. The next try: {_again(speedup)}",
                markup=False,
            )
    if result.vocabulary is not None:
        tokens = "tokens: {1:,} of {0:,} left".format(*result.vocabulary.tokens)
        console.print(f"{tokens}; {_changed(result.vocabulary)}")
    methods = " and ".join(f"{kind} by {name}" for kind, name in report.choice.method.items())
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in report.seconds.items())
    examples = "{:,} examples to choose and refit, {:,} held out".format(*report.examples)
    scored = "".join(
        f"; {count:,} of {language} {result.splits[language]} scored"
        for language, count in result.scored.items()
    )
    if report.tried_layers:
        tried = ", ".join(f"{n}: {loss:z.4f}" for n, loss in report.tried_layers.items())
        console.print(f"held-out loss by the number of layers removed: {tried}")
    if report.removed_layers:
        console.print(f"removed layers: {', '.join(report.removed_layers)}")
    console.print("; ".join(filter(None, (methods, f"{examples}{scored}", seconds))))
    if report.distances:
        console.print(_distances(report))
    if report.embeddings is not None:
        worst = shorten(result.worst_text, 200)
        text = f"embeddings of held-out texts: {report.embeddings.describe(worst)}"
        console.print(text, markup=False)
    if report.tried:
        tried = ", ".join(f"{name} {value:z.4f}" for name, value in report.tried.items())
        console.print(f"held-out loss after the refit of each method tried: {tried}")
    counts = [f"{name}: {count:,}" for name, count in result.facts["notes"].items()]
    for note in [*report.notes, *counts]:
        console.print(note, markup=False)
    console.print(f"written to {out}: {size_text(result.bytes)} of weights in {result.dtype}")


def _again(speedup: float) -> str:
    """This command with another speed-up, over the same folder."""
    words = ["deadhead", *sys.argv[1:]]
    for number, word in enumerate(words):
        if word.startswith("--speedup="):
            words[number] = f"--speedup={speedup}"
        elif word == "--speedup":
            words[number + 1] = str(speedup)
    return shlex.join([*words, *(() if "--force" in words else ["--force"])])


def _parts(result: ShrunkSaved) -> Table:
    """What each kind of part saves."""
    from rich.table import Table

    run = "ms for {} x {}".format(*result.report.shape)
    table = Table("saved by removed", "parameters", "megabytes", run)
    for part in result.parts:
        numbers = f"{part.parameters:,}", f"{part.megabytes:,.1f}", f"{part.milliseconds:z.1f}"
        table.add_row(part.name, *numbers)
    return table


def _distances(report: Shrunk) -> Table:
    """How far outputs are from those of the whole model, on your texts and on the guard."""
    from rich.table import Table

    fitted = "" if report.guard[0] else ", not fitted to"
    table = Table("distance to the whole model", "texts", "mean")
    for row in report.distances:
        whose = "yours" if row.texts == "yours" else f"guard{fitted}"
        table.add_row(f"{whose}: {row.name}", f"{row.examples:,}", f"{row.distance:.4f}")
    return table
