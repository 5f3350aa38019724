"""`deadhead heads`: what a model has to prune, and whether pruning it is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter, Option

from deadhead.errors import DeadheadError

from ._options import AsJson, Auto, Dtype, Model
from ._progress import print_json, print_table

if TYPE_CHECKING:
    from rich.console import Console

PROOF = ("effect", "all_open", "pruned", "reloaded", "generated")


def heads(
    model: Model,
    check: Annotated[
        bool,
        Option("--check", help="Check that masking, pruning and reloading give equal outputs."),
    ] = False,
    neurons: Annotated[
        bool, Option("--neurons", help="Also show the neurons of each feed-forward layer.")
    ] = False,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Annotated[
        str | None, Option(help="With --check: cpu or cuda; by default cuda if there is a GPU.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the heads of a model: heads per layer, parameters, share of the model.

    Examples:

        deadhead heads bert-base-multilingual-cased

        deadhead heads ./my-model --check

        deadhead heads ./my-model --neurons
    """
    # Longer than most functions: half of it is the list of options and the help.
    if device is not None and not check:
        raise BadParameter("only --check uses a device: add it", param_hint="--device")
    from deadhead.embedding import read_embedder
    from deadhead.heads import load
    from deadhead.heads.model_files import folder_of
    from deadhead.heads.summary import summary
    from deadhead.numerics import device_named
    from deadhead.verify.proof import prove_model

    home = folder_of(model)
    embedder = None if home is None else read_embedder(home)  # or raise an error
    place = device_named(device) if check else None  # or raise an error at once
    loaded = load(model, auto=auto, dtype=dtype or "auto")
    facts = {"model": model, **summary(loaded, neurons=neurons)}
    if embedder is not None:
        facts["sentence_encoder"] = str(embedder)
    if check:
        proofs = prove_model(loaded.to(place))
        facts["check"] = {title: proof.to_dict() for title, proof in proofs.items()}
    if as_json:
        print_json(facts)
    else:
        _print_heads(facts)
    if check and not all(proof["holds"] for proof in facts["check"].values()):
        hint = "do not prune it; please report the model type"
        raise DeadheadError("the proof does not hold: pruning this model is not exact.", hint)


def _print_heads(facts: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    share = facts["attention_parameters"] / facts["parameters"]
    console.print(
        f"[bold]{facts['class']}[/]: {facts['heads']} heads, "
        f"{facts['parameters']:,} parameters, {share:.0%} of them in attention",
        highlight=False,
    )
    if "sentence_encoder" in facts:
        console.print(f"sentence encoder: {facts['sentence_encoder']}", highlight=False)
    for block in dict.fromkeys(layer["block"] for layer in facts["layers"]):
        _print_block(console, block, [r for r in facts["layers"] if r["block"] == block])
    if "feed_forwards" in facts:
        _print_feed_forwards(facts["feed_forwards"])
    for path, reason in facts["skipped"].items():
        console.print(f"[yellow]skipped[/] {path}: {reason}", highlight=False)
    if "check" in facts:
        _print_proofs(facts["check"])


def _print_block(console: Console, block: str, layers: list[dict[str, Any]]) -> None:
    from rich.table import Table

    size = max(layer["built"] for layer in layers)
    digits = len(str(size - 1))
    numbers = " ".join(f"{i:{digits}}" for i in range(size))
    table = Table("layer", numbers, "left", "weights per head", title=block, title_justify="left")
    table.columns[1].no_wrap = True
    for layer in layers:
        marks = ["●" if i in layer["left"] else "·" for i in range(layer["built"])]
        table.add_row(
            _number(layer),
            f"[green]{' '.join(mark.rjust(digits) for mark in marks)}[/]",
            f"{len(layer['left'])} of {layer['built']}",
            f"{layer['parameters_per_head']:,}",
        )
    console.print(table)
    if layers[0]["group"] > 1:
        console.print(
            f"Every {layers[0]['group']} consecutive heads share one key/value head: remove whole "
            "groups, or the same number of heads from each group, or single heads with "
            "--groups expand."
        )
    if copied := [str(layer["layer"]) for layer in layers if layer["key_heads"]]:
        console.print(
            f"Key/value heads were copied in layer {', '.join(copied)}, where fewer heads share "
            "one."
        )
    if layers[0]["shared_by"] > 1:
        console.print(
            f"{layers[0]['shared_by']} layers share these weights: "
            "a removed head is removed from all of them."
        )


def _print_feed_forwards(layers: list[dict[str, Any]]) -> None:
    if not layers:
        typer.echo("No feed-forward layer has neurons that can be removed.")
        return
    rows = [
        (
            layer["block"],
            _number(layer),
            f"{layer['left']:,} of {layer['built']:,}",
            f"{layer['parameters_per_neuron']:,}",
        )
        for layer in layers
    ]
    columns = ("block", "layer", "neurons left", "weights per neuron")
    print_table(columns, rows, title="feed-forward neurons", title_justify="left")


def _number(layer: dict[str, Any]) -> str:
    """The number of a layer, and how many layers share its weights."""
    note = f" (x {layer['shared_by']} layers)" if layer["shared_by"] > 1 else ""
    return f"{layer['layer']}{note}"


def _print_proofs(proofs: dict[str, Any]) -> None:
    words = {True: "same", False: "differs", None: "-"}
    rows = []
    for name, proof in proofs.items():
        values = [proof[column] for column in PROOF]
        cells = [f"{v:.1e}" if isinstance(v, float) else words[v] for v in values]
        holds = "[green]yes[/]" if proof["holds"] else "[red]no[/]"
        rows.append((f"{name} ({proof['removed']})", *cells, holds))
    columns = ("removed", *(name.replace("_", " ") for name in PROOF), "holds")
    title = "largest difference in any output"
    print_table(columns, rows, title=title, title_justify="left")
