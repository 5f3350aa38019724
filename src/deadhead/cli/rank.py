"""`deadhead rank`: score the heads of a model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from deadhead import rankers
from deadhead.errors import DataError, MissingExtra, unknown_name
from deadhead.rankers import METHOD, RANKERS

from . import _options as opt
from ._outputs import check_file
from ._progress import print_json, print_table

if TYPE_CHECKING:
    from deadhead.ranking import Ranking

ENDS = 10  # heads to print from each end of the ranking
PLOTS = (".svg", ".png", ".html")


def rank(
    model: opt.Model,
    out: Annotated[Path, Option(metavar="FILE", help="The JSON file to write the ranking to.")],
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    text: opt.Texts = None,
    split: opt.Split = "dev",
    method: Annotated[str, Option(help=f"How to score heads: {', '.join(RANKERS)}.")] = METHOD,
    loss: opt.Loss = None,
    option: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help="An option of the method, such as unit=per_batch; can be repeated.",
        ),
    ] = None,
    max_examples: opt.MaxExamples = None,
    data: opt.Data = None,
    source: opt.Corpus = None,
    batch: opt.BatchSize = None,
    max_length: opt.Length = None,
    seed: opt.Seed = 0,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    checkpointing: opt.Checkpointing = False,
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="Also draw a heat map, as .svg, .png or .html.")
    ] = None,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Score every head of a model by how much it matters, and save the ranking.

    Rank a fine-tuned model with the labels of its task. Use `--loss self` for an embedding model,
    or for data without labels.

    Examples:

        deadhead rank ./pos-en --task pos --lang en --out ranking.json

        deadhead rank ./pos-en --task pos --lang de --method shapley --out shapley.json

        deadhead rank ./pos --task pos --lang de --method ablation --option fill=mean --out m.json

        deadhead rank ./all-MiniLM-L6-v2 --text sentences.txt --out embeddings.json
    """
    # Longer than most functions: half of it is the list of options. All of them are checked first,
    # since a mistake should not cost the time to load a model.
    known, languages = opt.task_or_text(task, lang, text)
    options = opt.options_from(option)
    check_file(out, "--out", "ranking.json", force=force)
    _check_plot(plot)
    check_file(plot, "--plot", "heads.svg", force=force)
    from deadhead.saved import rank_data

    reads_loss = rankers.ranker(method, **options).reads == "labels or a loss"
    if reads_loss or loss == "embedding":
        loss = rank_data.default_loss(model, known, loss)
    needs_labels = rankers.check_method(method, loss, options, checkpointing)
    if known is None and needs_labels:
        hint = "add --loss self, or --method entropy"
        raise DataError(f"plain text has no labels, which {method} needs.", hint)
    from deadhead.heads import discover
    from deadhead.heads.load import skeleton
    from deadhead.numerics import device_named
    from deadhead.training.models import fitting_tokenizer, load_with_tokenizer

    place = device_named(device)
    bare = skeleton(model, auto=auto, dtype=dtype)
    discover(bare)
    fitting_tokenizer(bare, model)
    where = {"root": data, "source": source}
    examples: Any = rank_data.sample(
        known, languages, split, text, most=max_examples, seed=seed, **where
    )
    if not text:
        names = {"task": examples.task.name, "lang": lang, "split": split}
    else:
        names = {"text": ", ".join(file.name for file in text)}
    needs: Any = {"needs_labels": needs_labels, "loss": loss, "max_length": max_length}
    rank_data.check_model(bare, examples, **needs)
    loaded, tokenizer = load_with_tokenizer(model, place, auto=auto, dtype=dtype)
    batches, facts = rank_data.rank_batches(
        loaded,
        tokenizer,
        examples,
        **needs,
        size=batch,
        in_file_order=rankers.ranker(method, **options).in_file_order,
    )
    facts = {**names, **facts}
    ranking = rankers.rank(
        loaded, batches, method, loss=loss, seed=seed, checkpointing=checkpointing, data=facts,
        **options,
    )  # fmt: skip
    ranking.save(out)
    if plot is not None:
        ranking.plot().save(str(plot))
    if as_json:
        few = min(ENDS, len(ranking))
        ends = {"lowest": ranking.lowest(few), "highest": ranking.highest(few)}
        heads = {name: list(map(str, end)) for name, end in ends.items()}
        print_json({"out": str(out), **heads, **ranking.to_dict()})
    else:
        _print_ranking(ranking, out)


def _check_plot(file: Path | None) -> None:
    if file is None:
        return
    if file.suffix not in PLOTS:
        raise unknown_name("kind of plot file", file.suffix or file.name, PLOTS)
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise MissingExtra("altair", "report", "a plot of a ranking")


def _print_ranking(ranking: Ranking, out: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(ranking)
    few = min(ENDS, len(ranking))
    ends = zip(ranking.lowest(few), ranking.highest(few), strict=True)
    rows = [
        (str(n), str(low), f"{ranking[low]:.4g}", str(high), f"{ranking[high]:.4g}")
        for n, (low, high) in enumerate(ends, 1)
    ]
    print_table(("", "lowest", "score", "highest", "score"), rows)
    facts = ranking.data
    for name, count in facts["notes"].items():
        console.print(f"{name}: {count}")
    if "unknown_labels" in facts:
        share = f"{facts['unknown_labels']:.1%}"
        console.print(f"the model does not know {share} of the labels, which are left out")
    console.print(
        f"{facts['examples']} examples in {facts['windows']} windows, {facts['tokens']} tokens, "
        f"{facts['padding']:.1%} padding; written to {out}"
    )
