"""`deadhead compare`: how similar rankings are."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ._options import AsJson


def compare(
    files: Annotated[list[Path], Argument(metavar="RANKING...", help="Two or more rankings.")],
    heads: Annotated[
        int | None,
        Option(
            metavar="M",
            min=1,
            help="Compare the M highest and the M lowest heads; by default a twelfth of them.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare rankings: Spearman's rho of each pair, and the heads that their ends share.

    Example:

        deadhead compare en.json de.json zh.json
    """
    if len(files) < 2:
        raise typer.BadParameter("name at least two rankings", param_hint="RANKING")
    from deadhead.ranking import Ranking, check_same_build, correlations

    rankings = [Ranking.load(file) for file in files]
    check_same_build(rankings, [str(file) for file in files])
    m = heads or max(1, min(len(ranking) for ranking in rankings) // 12)
    pairs = [
        {
            "rankings": [str(files[i]), str(files[j])],
            "spearman": {"rho": correlation.rho, "p": correlation.p, "heads": correlation.n},
            "overlap": rankings[i].overlap(rankings[j], m)._asdict(),
        }
        for i, j in combinations(range(len(files)), 2)
        for correlation in [rankings[i].spearman(rankings[j])]
    ]
    methods = [ranking.method for ranking in rankings]
    matrix = correlations(rankings)
    if as_json:
        facts = {"rankings": [str(file) for file in files], "methods": methods}
        typer.echo(json.dumps({**facts, "spearman": matrix.tolist(), "pairs": pairs}, indent=1))
        return
    mixed = len(set(methods)) > 1
    names = [
        f"{file.stem} {method}" if mixed else file.stem
        for file, method in zip(files, methods, strict=True)
    ]
    _print_tables(names, matrix, pairs, m)
    models = [ranking.model for ranking in rankings]
    for noun, values in (("method", methods), ("model", models)):
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            typer.echo(
                f"These rankings are of different {noun}s: {', '.join(different)}. "
                f"Differences may come from the {noun}, not from the language."
            )


def _print_tables(names: list[str], matrix: Any, pairs: list[dict[str, Any]], m: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("Spearman", *names)
    for name, row in zip(names, matrix, strict=True):
        table.add_row(name, *(f"{value:.3f}" for value in row))
    Console().print(table)
    table = Table("pair", "rho", "p", f"{m} highest shared", f"{m} lowest shared", "by chance")
    for pair, (first, second) in zip(pairs, combinations(names, 2), strict=True):
        rho, overlap = pair["spearman"], pair["overlap"]
        cells = (str(overlap["highest"]), str(overlap["lowest"]), f"{overlap['by_chance']:.1f}")
        table.add_row(f"{first} / {second}", f"{rho['rho']:.3f}", f"{rho['p']:.2g}", *cells)
    Console().print(table)
