"""`deadhead rank` and `deadhead compare`: score the heads of a model, and see how alike rankings are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadhead.errors import DataError, MissingExtra, unknown_name
from deadhead.rankers import METHOD

from .data import Corpus, Length, MaxExamples, Root, TaskFile, TaskName, languages_of, needed_task
from .loading import model_and_tokenizer, watched
from .model_options import Auto, Device, Dtype
from .outputs import Force, check_file

if TYPE_CHECKING:
    from deadhead.ranking import Ranking
    from deadhead.tasks import Batches, Dataset, Task

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]
IN_ORDER = (
    "per_batch",
    "cumulative",
)  # units for which the order of the data counts, so that it stays that of the file
SHOWN = 10
TOKENS_ON_GPU = 32768  # in one batch
PLOTS = {
    ".svg": ("altair", "vl_convert"),
    ".png": ("altair", "vl_convert"),
    ".html": ("altair",),
}  # modules each needs
PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}  # the packages they are in


def rank(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder with a fine-tuned model, or its name on the hub.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The JSON file to write.", show_default=False)],
    lang: Annotated[
        str | None,
        typer.Option(
            help="The language of the data, such as en; several by commas.", show_default=False
        ),
    ] = None,
    task: TaskName = None,
    task_file: TaskFile = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plain text instead of a task: a text on each line, or a pair with a tab.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    method: Annotated[
        str,
        typer.Option(help="taylor, gradient, lrp, l0, shapley, ablation, entropy or confidence."),
    ] = METHOD,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="self",
            help="Without labels: the distance to what the whole model says of the texts.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the method; can be given again."),
    ] = None,
    max_examples: MaxExamples = None,
    data: Root = None,
    source: Corpus = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, help="Examples in a batch; by default 32, and on a GPU as many as keep it busy."
        ),
    ] = None,
    max_length: Length = 256,
    seed: Annotated[int, typer.Option(help="For what is drawn at random.")] = 0,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Device = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw the heat map, as .svg, .png or .html."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score every head of a model by how much it matters, and save the ranking.

    A fine-tuned model is scored by its labels. An embedding model, or one without labelled data, by `--loss self`.

    Examples:

        deadhead rank ./pos-en --task pos --lang en --out ranking.json

        deadhead rank ./pos-en --task pos --lang de --method shapley --option permutations=50 --max-examples 512 --out shapley.json

        deadhead rank ./all-MiniLM-L6-v2 --loss self --text sentences.txt --out embeddings.json
    """
    known = _source(task, task_file, lang, text)
    options = options_of(option or [])
    check_file(
        out, "--out", "ranking.json", force=force
    )  # a mistake in any of these should not cost the time to load a model
    _check_plot(plot)
    check_file(plot, "--plot", "heads.svg", force=force)
    from deadhead.device import device_named
    from deadhead.rankers import check_method
    from deadhead.rankers import rank as score

    needs_labels = check_method(method, loss, options)
    place = str(device_named(device))
    if text is None:
        chosen: Dataset | list[tuple[str, ...]] = _data(
            known, str(lang), split, {"root": data, "source": source}, max_examples, seed
        )
    elif needs_labels:
        raise DataError(
            f"plain text has no labels, by which {method} scores heads.",
            "add --loss self, or --method entropy",
        )
    else:
        chosen = _texts(text, max_examples, seed)
    loaded, tokenizer = model_and_tokenizer(model, auto, dtype, place)
    if isinstance(chosen, list) or _label_free(loaded, chosen, needs_labels, loss):
        batches, facts = _unlabelled(loaded, tokenizer, chosen, batch, max_length)
    else:
        batches, facts = _labelled(
            loaded,
            tokenizer,
            chosen,
            batch,
            max_length,
            in_file_order=options.get("unit") in IN_ORDER,
        )
    named = (
        {"text": text.name}
        if text is not None
        else {"task": known if isinstance(known, str) else known.name, "lang": lang, "split": split}
    )
    with watched(method) as progress:
        ranking = score(
            loaded,
            batches,
            method,
            loss=loss,
            seed=seed,
            progress=progress,
            data={**named, **facts},
            **options,
        )
    ranking.save(out)
    if plot is not None:
        ranking.plot().save(str(plot))
    if as_json:
        few = min(SHOWN, len(ranking))
        ends = {
            "lowest": [str(h) for h in ranking.lowest(few)],
            "highest": [str(h) for h in ranking.highest(few)],
        }
        typer.echo(json.dumps({"out": str(out), **ends, **ranking.to_dict()}, indent=1))
    else:
        _show(ranking, out)


def options_of(texts: list[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is read as JSON where it is (2, 0.5, true, [1, 2]), else as a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--option")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip()] = value
    return options


def _check_plot(file: Path | None) -> None:
    from importlib.util import find_spec

    if file is None:
        return
    if file.suffix not in PLOTS:
        raise unknown_name("kind of plot file", file.suffix or file.name, PLOTS)
    for package in PLOTS[file.suffix]:
        if find_spec(package) is None:
            raise MissingExtra(PACKAGES[package], "report", "a plot of a ranking")


def _data(
    task: str | Task, lang: str, split: str, where: dict[str, Any], most: int | None, seed: int
) -> Dataset:
    from deadhead.tasks import draw_examples, load_data

    langs = languages_of(lang)
    return draw_examples(
        load_data(task, langs[0] if len(langs) == 1 else langs, split, **where), most, seed
    )


def _texts(file: Path, most: int | None, seed: int) -> list[tuple[str, ...]]:
    from deadhead.tasks.dataset import shuffled
    from deadhead.tasks.encoding.plain_text import read_texts

    texts = read_texts(file)
    return (
        texts
        if most is None
        else [texts[i] for i in sorted(shuffled(len(texts), f"rank/{seed}")[:most])]
    )


def _source(
    task: str | None, task_file: Path | None, lang: str | None, text: Path | None
) -> str | Task:
    """The task, or nothing where there is plain text; an error for both and for neither."""
    if text is not None:
        if task is not None or task_file is not None or lang is not None:
            raise typer.BadParameter(
                "give --text FILE alone, or --task and --lang", param_hint="--text"
            )
        return ""
    if task is None and task_file is None:
        raise typer.BadParameter(
            "give --task NAME or --task-file FILE, or --text FILE to rank without labels (--loss self)",
            param_hint="--task",
        )
    known = needed_task(task, task_file)
    if lang is None:
        raise typer.BadParameter(
            "name the language of the data, such as --lang en", param_hint="--lang"
        )
    return known


def _label_free(loaded: Any, data: Dataset, needs_labels: bool, loss: str | None) -> bool:
    """Whether only the texts of this data are read: always by --loss self, else where the model is not of the task."""
    from deadhead.training.labels import made_for

    if getattr(loaded.config, "is_encoder_decoder", False):
        return False  # its decoder reads the labels
    return loss is not None or (not needs_labels and not made_for(loaded, data))


def _unlabelled(
    loaded: Any,
    tokenizer: Any,
    chosen: Dataset | list[tuple[str, ...]],
    size: int | None,
    max_length: int,
) -> tuple[Any, dict[str, Any]]:
    """Batches of texts, and what the ranking remembers of them."""
    from deadhead.tasks.encoding.plain_text import fingerprint, text_batches, texts_of

    if getattr(loaded.config, "is_encoder_decoder", False):
        raise DataError(
            f"{type(loaded).__name__} reads two texts, one by its decoder.",
            "name a task of translations with --task",
        )
    texts = chosen if isinstance(chosen, list) else texts_of(chosen)
    made = text_batches(texts, tokenizer, size=size or 32, max_length=max_length)
    notes = {**({} if isinstance(chosen, list) else chosen.notes), **made.notes}
    facts = {
        "examples": made.examples,
        "windows": made.examples,
        "padding": round(made.padding, 4),
        "notes": notes,
    }
    return made.batches, {**facts, "fingerprint": fingerprint(texts)}


def _labelled(
    loaded: Any,
    tokenizer: Any,
    data: Dataset,
    size: int | None,
    max_length: int,
    *,
    in_file_order: bool,
) -> tuple[Batches, dict[str, Any]]:
    """Batches with labels, and what the ranking remembers of them."""
    from deadhead.tasks import batches, encode
    from deadhead.training.labels import model_labels

    try:
        labels = model_labels(loaded, data)
    except DataError as problem:
        raise DataError(
            problem.message, f"{problem.hint}; or rank it without labels: --loss self"
        ) from None
    encoded = encode(data, tokenizer, max_length=max_length, labels=labels)
    if size is None and loaded.device.type == "cuda" and not in_file_order:
        made = batches(encoded, tokens=TOKENS_ON_GPU)
    else:
        made = batches(encoded, size=size or 32, sort=not in_file_order)
    return made, _facts(data, made)


def _facts(data: Dataset, batches: Batches) -> dict[str, Any]:
    """What the ranking remembers of its data: how much there was, and what was dropped, cut, split or passed over."""
    encoded = batches.encoded
    strange = encoded.notes.get("labels the model does not know", 0) / max(
        1, sum(len(row.labels) for row in data.rows)
    )
    return {
        "examples": len(data),
        "windows": len(encoded),
        "padding": round(batches.padding, 4),
        "fingerprint": data.fingerprint,
        "notes": {**data.notes, **encoded.notes},
        **({"unknown_labels": round(strange, 4)} if strange else {}),
    }


def _show(ranking: Ranking, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(ranking)
    few = min(SHOWN, len(ranking))
    table = Table("", "lowest", "score", "highest", "score")
    for place, (low, high) in enumerate(
        zip(ranking.lowest(few), ranking.highest(few), strict=True), 1
    ):
        table.add_row(
            str(place), str(low), f"{ranking[low]:.4g}", str(high), f"{ranking[high]:.4g}"
        )
    console.print(table)
    facts = ranking.data
    for name, count in facts["notes"].items():
        console.print(f"{name}: {count}", highlight=False)
    if "unknown_labels" in facts:
        console.print(
            f"the model does not know {facts['unknown_labels']:.1%} of the labels, which are left out",
            highlight=False,
        )
    told = f"{facts['examples']} examples in {facts['windows']} windows, {facts['tokens']} tokens, {facts['padding']:.1%} padding"
    console.print(f"{told}; written to {out}", highlight=False)


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="RANKING...", help="Two or more rankings.", show_default=False),
    ],
    heads: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            min=1,
            help="Count the overlap of the M highest and lowest; by default a 12th.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How alike rankings are: Spearman's rho of each with each, and the heads their ends share.

    Example:

        deadhead compare en.json de.json zh.json
    """
    if len(files) < 2:
        raise typer.BadParameter("name at least two rankings", param_hint="RANKING")
    from deadhead.ranking import Ranking, check_built_alike, correlations

    rankings = [Ranking.load(file) for file in files]
    check_built_alike(rankings, [str(file) for file in files])
    m = heads or max(1, min(len(r) for r in rankings) // 12)
    pairs = [(i, j) for i in range(len(files)) for j in range(i + 1, len(files))]
    found = [
        {
            "rankings": [str(files[i]), str(files[j])],
            "spearman": rankings[i].spearman(rankings[j])._asdict(),
            "overlap": rankings[i].overlap(rankings[j], m)._asdict(),
        }
        for i, j in pairs
    ]
    table = correlations(rankings)
    if as_json:
        facts = {"rankings": [str(f) for f in files], "methods": [r.method for r in rankings]}
        typer.echo(json.dumps({**facts, "spearman": table.tolist(), "pairs": found}, indent=1))
        return
    methods = list(dict.fromkeys(r.method for r in rankings))
    names = [
        f"{f.stem} {r.method}" if len(methods) > 1 else f.stem
        for f, r in zip(files, rankings, strict=True)
    ]
    _show_matrix(names, table)
    _show_pairs([f"{names[i]} / {names[j]}" for i, j in pairs], found, m)
    if len(methods) > 1:
        typer.echo(
            f"These were scored by different methods: {', '.join(methods)}. What differs may be the method, not the language."
        )
    models = list(dict.fromkeys(r.model for r in rankings))
    if len(models) > 1:
        typer.echo(
            f"These are of different models: {', '.join(models)}. What differs may be the model, not the language."
        )


def _show_matrix(names: list[str], matrix: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("Spearman", *names)
    for name, row in zip(names, matrix, strict=True):
        table.add_row(name, *(f"{value:.3f}" for value in row))
    Console().print(table)


def _show_pairs(names: list[str], found: list[dict[str, Any]], m: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("pair", "rho", "p", f"{m} highest shared", f"{m} lowest shared", "by chance")
    for name, pair in zip(names, found, strict=True):
        rho, overlap = pair["spearman"], pair["overlap"]
        cells = (str(overlap["highest"]), str(overlap["lowest"]), f"{overlap['by_chance']:.1f}")
        table.add_row(name, f"{rho['rho']:.3f}", f"{rho['p']:.2g}", *cells)
    Console().print(table)
