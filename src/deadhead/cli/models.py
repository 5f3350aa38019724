"""`deadhead heads`, `prune`, `bench`: the commands that hold one model in their hands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadhead.errors import DeadheadError, HeadError
from deadhead.strategies import STRATEGIES, choose

from .model_options import Auto, Device, Dtype, Model, load_model
from .outputs import Force, check_folder
from .strategy_flags import WithStrategyFlags, flags

if TYPE_CHECKING:
    from deadhead.heads.verify.coverage import Row
    from deadhead.layout import HeadLayout

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]


def heads(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help="A folder with a saved model, or its name on the hub."
        ),
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Prove masked = pruned = reloaded on this model's own weights."
        ),
    ] = False,
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Prove every model type of the installed transformers."),
    ] = False,
    only: Annotated[
        str, typer.Option(metavar="TYPES", help="With --coverage: these model types, by commas.")
    ] = "",
    auto: Auto = None,
    dtype: Dtype = None,
    device: Annotated[
        str | None,
        typer.Option(help="With --check: cpu or cuda; by default a GPU if there is one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the heads of a model: layers x heads, parameters, share of the model.

    Examples:

        deadhead heads bert-base-multilingual-cased

        deadhead heads ./my-model --check

        deadhead heads --coverage --json
    """
    if coverage:
        if model or check or auto or dtype or device:
            raise typer.BadParameter(
                "--coverage builds models of its own: leave out MODEL, --check, --auto, --dtype and --device",
                param_hint="--coverage",
            )
        _coverage([t.strip() for t in only.split(",") if t.strip()], as_json)
        return
    if not model:
        raise typer.BadParameter("name a model, or ask for --coverage", param_hint="MODEL")
    if device is not None and not check:
        raise typer.BadParameter("only the proof computes: add --check", param_hint="--device")
    from deadhead.device import device_named
    from deadhead.heads import discover

    place = device_named(device) if check else None
    loaded = load_model(model, auto, dtype, device=place)
    layout = discover(loaded)
    facts = _facts(model, loaded, layout)
    if check:
        facts["check"] = _proofs(loaded)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        _show_heads(layout, facts)
    if check and not all(p["holds"] for p in facts["check"].values()):
        raise DeadheadError(
            "the proof does not hold: removing heads of this model is not exact.",
            "do not prune it; please report the model type",
        )


def _facts(name: str, loaded: Any, layout: HeadLayout) -> dict[str, Any]:
    from deadhead.heads.discover import find_sites

    found = find_sites(loaded)
    modules = [
        m for site in found for m in (site.core, *(part.module for part in site.parts.values()))
    ]
    in_attention = sum(
        p.numel() for p in {id(p): p for m in modules for p in m.parameters()}.values()
    )
    total = sum(p.numel() for p in loaded.parameters())
    per_head = {
        (s.block, s.layer): sum(
            getattr(p.module, n).numel() for p in s.parts.values() for n, _ in p.tensors
        )
        // max(1, len(s.kept))
        for s in found
    }
    return {
        "model": name,
        "class": type(loaded).__name__,
        "heads": len(layout),
        "removed": [str(h) for h in layout.removed],
        "parameters": total,
        "attention_parameters": in_attention,
        "layers": [
            {
                "block": a.block,
                "layer": a.layer,
                "built": a.size,
                "left": list(a.kept),
                "width": a.width,
                "group": a.group,
                "shared_by": a.shared_by,
                "parameters_per_head": per_head[a.block, a.layer],
            }
            for a in layout.attentions
        ],
        "skipped": layout.skipped,
    }


def _proofs(loaded: Any) -> dict[str, Any]:
    from deadhead.heads import discover
    from deadhead.heads.verify.coverage import batch_for, prompt_for
    from deadhead.heads.verify.proof import prove, sample

    layout, batch, prompt = (
        discover(loaded),
        _placed(batch_for(loaded), loaded),
        _placed(prompt_for(loaded), loaded),
    )
    return {
        title: prove(loaded, batch, sample(layout, whole), generate=prompt).to_dict()
        for title, whole in (("uneven", False), ("a layer emptied", True))
        if sample(layout, whole)
    }


def _placed(inputs: dict[str, Any] | None, loaded: Any) -> Any:
    """The tensors among these on the device of the model."""
    return (
        None
        if inputs is None
        else {k: v.to(loaded.device) if hasattr(v, "to") else v for k, v in inputs.items()}
    )


def _show_heads(layout: HeadLayout, facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    share = facts["attention_parameters"] / facts["parameters"]
    console.print(
        f"[bold]{facts['class']}[/]: {facts['heads']} heads, {facts['parameters']:,} parameters, {share:.0%} of them in attention",
        highlight=False,
    )
    per_head = {(row["block"], row["layer"]): row["parameters_per_head"] for row in facts["layers"]}
    for block in layout.blocks:
        size = layout.size(block)
        digits = len(str(size - 1))
        table = Table(
            "layer",
            " ".join(f"{i:{digits}}" for i in range(size)),
            "left",
            "weights a head",
            title=block,
            title_justify="left",
        )
        table.columns[1].no_wrap = True
        for a in layout.of(block):
            marks = " ".join(
                " " * (digits - 1) + ("●" if i in a.kept else "·" if i < a.size else " ")
                for i in range(size)
            )
            note = f" (x {a.shared_by} layers)" if a.shared_by > 1 else ""
            table.add_row(
                f"{a.layer}{note}",
                f"[green]{marks}[/]",
                f"{len(a.kept)} of {a.size}",
                f"{per_head[block, a.layer]:,}",
            )
        console.print(table)
        first = layout.of(block)[0]
        if first.group > 1:
            console.print(
                f"Each {first.group} heads in a row read one key/value head; remove whole groups, or equally many of each."
            )
        if first.shared_by > 1:
            console.print(
                f"These weights serve {first.shared_by} layers: a head that goes, goes from all of them."
            )
    for path, why in facts["skipped"].items():
        console.print(f"[yellow]passed over[/] {path}: {why}", highlight=False)
    if "check" in facts:
        _show_proofs(console, facts["check"])


def _show_proofs(console: Any, proofs: dict[str, Any]) -> None:
    from rich.table import Table

    columns = ("effect", "opened", "pruned", "reloaded", "generated")
    table = Table(
        "heads removed",
        *columns,
        "holds",
        title="largest difference in any output",
        title_justify="left",
    )
    for title, proof in proofs.items():
        cells = [
            f"{proof[c]:.1e}"
            if isinstance(proof[c], float)
            else {True: "same", False: "differs", None: "-"}[proof[c]]
            for c in columns
        ]
        table.add_row(
            f"{title} ({proof['removed']})",
            *cells,
            "[green]yes[/]" if proof["holds"] else "[red]no[/]",
        )
    console.print(table)


def _coverage(types: list[str], as_json: bool) -> None:
    from deadhead.errors import unknown_name
    from deadhead.heads.verify.coverage import coverage, model_types

    known = model_types()
    for name in types:
        if name not in known:
            raise unknown_name("model type", name, known)
    rows = list(_with_progress(coverage(types or known), len(types or known)))
    if as_json:
        typer.echo(json.dumps([vars(r) for r in rows], indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("model type", "status", "reason")
    colours = {"pass": "green", "refused": "yellow", "n/a": "dim"}
    for row in rows:
        table.add_row(row.model_type, f"[{colours[row.status]}]{row.status}[/]", row.reason)
    Console().print(table)
    counts = {status: sum(r.status == status for r in rows) for status in colours}
    typer.echo(", ".join(f"{n} {status}" for status, n in counts.items()))


def _with_progress(rows: Any, total: int) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("proving", total=total)
        row: Row
        for row in rows:
            bar.update(task, advance=1, description=f"{row.model_type} {row.status}")
            yield row


@WithStrategyFlags
def prune(
    model: Model,
    out: Annotated[
        Path, typer.Option(help="Folder to write the pruned model to.", show_default=False)
    ],
    heads: Annotated[
        str, typer.Option(metavar="LIST", help="These heads, by commas: encoder.3.7,encoder.4.0")
    ] = "",
    per: Annotated[
        str,
        typer.Option(
            help="With --random: draw from the whole model, or equally per block or layer."
        ),
    ] = "model",
    ranking: Annotated[Path | None, typer.Option(help="A ranking made by `deadhead rank`.")] = None,
    seed: Annotated[int, typer.Option(help="For what is drawn at random.")] = 0,
    auto: Auto = None,
    dtype: Dtype = None,
    drop_output_bias: Annotated[
        bool,
        typer.Option(
            "--drop-output-bias", help="A layer that loses its last head loses its output bias too."
        ),
    ] = False,
    form: Annotated[
        str,
        typer.Option(
            help="compact: small weights, for deadhead. padded: full shapes, zeroed, for everyone."
        ),
    ] = "compact",
    force: Force = False,
    as_json: AsJson = False,
    **amounts: Any,  # by strategy, each with a flag of its own
) -> None:
    """Remove heads from a model and save what is left.

    Examples:

        deadhead prune bert-base-cased --heads encoder.3.7,encoder.4.0 --out small

        deadhead prune ./my-model --random 50 --seed 1 --out half

        deadhead prune ./my-model --lowest 12 --ranking ranking.json --out better
    """
    chosen = {name: value for name, value in amounts.items() if value not in ("", None)}
    if len(chosen) + bool(heads) != 1:
        number = len(chosen) + bool(heads) or "none"
        known = ", ".join(["--heads", *flags().values()])
        raise typer.BadParameter(f"give exactly one of {known} (got {number})")
    strategy, amount = next(iter(chosen.items()), ("", None))
    if strategy:
        STRATEGIES[strategy].check_amount(strategy, amount)
    check_folder(out, "--out", model=model, force=force)
    ranked = None
    if strategy and STRATEGIES[strategy].needs_scores:
        if ranking is None:
            raise HeadError(
                f"{flags()[strategy]} needs a ranking.",
                f"deadhead rank {model} ... --out ranking.json, then add --ranking ranking.json",
            )
        from deadhead.ranking import Ranking

        ranked = Ranking.load(ranking)
    from deadhead.heads import discover, save
    from deadhead.heads import prune as cut
    from deadhead.heads.model_files import fetch, stored_dtype

    kept = (
        stored_dtype(model) if dtype in (None, "auto") else dtype
    )  # what the config says may be twice as large
    loaded = load_model(model, auto, kept)
    layout = discover(loaded)
    options: dict[str, Any] = {} if ranked is None else {"scores": ranked.scores_for(layout)}
    if strategy == "random":
        options["per"] = per
    gone = layout.check(
        choose(strategy, layout, amount, seed=seed, **options) if strategy else heads.split(",")
    )
    before = sum(p.numel() for p in loaded.parameters())
    cut(loaded, gone, drop_output_bias=drop_output_bias)
    fetch(model)
    save(loaded, out, form=form)
    after = sum(p.numel() for p in loaded.parameters())
    facts = {
        "out": str(out),
        "form": form,
        "removed": [str(h) for h in gone],
        "left": len(layout) - len(gone),
        "parameters": [before, after],
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "bytes": sum(file.stat().st_size for file in out.glob("*.safetensors")),
        "kept_files": _kept_files(loaded),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        _show_pruned(facts, asked_dtype=dtype)


def _kept_files(loaded: Any) -> list[str]:
    """What was taken along from the folder of the source, weights and card aside."""
    from deadhead.heads.model_files import source_of, taken_along

    source = source_of(loaded)
    return (
        []
        if source is None
        else [str(f) for f in taken_along(source, tokenizer=True) if (source / f).is_file()]
    )


def _show_pruned(facts: dict[str, Any], asked_dtype: str | None) -> None:
    gone, left, (before, after) = len(facts["removed"]), facts["left"], facts["parameters"]
    typer.echo(
        f"{gone} of {gone + left} heads removed, {before:,} -> {after:,} parameters ({1 - after / before:.1%} less), in {facts['out']}"
    )
    why = "as in the source" if asked_dtype in (None, "auto") else "as asked by --dtype"
    typer.echo(f"weights in {facts['dtype']}, {why}: {facts['bytes'] / 2**20:.1f} MiB")
    if facts["kept_files"]:
        typer.echo(f"kept from the source: {', '.join(facts['kept_files'])}")


def bench(
    model: Annotated[
        str, typer.Argument(metavar="DIR", help="The pruned model.", show_default=False)
    ],
    against: Annotated[str, typer.Option(help="The model to compare it with.", show_default=False)],
    batch: Annotated[str, typer.Option(help="Batch sizes, by commas.")] = "1,8",
    length: Annotated[str, typer.Option(help="Lengths in tokens, by commas.")] = "32,128",
    repeats: Annotated[int, typer.Option(help="Timed rounds.")] = 10,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare a pruned model with another: parameters, FLOPs, disk, latency, peak memory, with ratios.

    Example:

        deadhead bench half --against bert-base-cased --batch 1,32 --length 128
    """
    from deadhead.heads.verify.bench import bench as measure

    loading: dict[str, Any] = {"auto": auto, "dtype": dtype or "auto", "device": device}
    result = measure(
        model,
        against,
        batches=_numbers(batch),
        lengths=_numbers(length),
        repeats=repeats,
        **loading,
    )
    if as_json:
        typer.echo(json.dumps(result, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    title = f"{result['device']}, {result['threads']} threads"
    note = "Times: median ± middle half of the rounds; their ratio: the median over the rounds. Peak memory: of a process for each model."
    columns = ("", result["model"], result["against"], "ratio")
    table = Table(*columns, title=title, title_justify="left", caption=note, caption_justify="left")
    for row in result["rows"]:
        cells = [
            _amount(row["what"], row[side], row.get("spread", (None, None))[i])
            for i, side in enumerate(("model", "against"))
        ]
        table.add_row(row["what"], *cells, "-" if row["ratio"] is None else f"{row['ratio']:.3f}")
    Console().print(table)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers such as 1,8") from None


def _amount(what: str, value: Any, spread: float | None) -> str:
    if value is None:
        return "-"
    if what.startswith("seconds"):
        return f"{value * 1e3:.1f} ms ± {(spread or 0) * 1e3:.1f}"
    if "bytes" in what:
        return f"{value / 2**20:.1f} MiB"
    return f"{value:,}"
