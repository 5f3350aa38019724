"""`deadhead compare`: how similar rankings are."""

from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from ._options import AsJson
from ._progress import print_json, print_table


def compare(
    files: Annotated[list[Path], Argument(metavar="RANKING", help="Two or more rankings.")],
    heads: Annotated[
        int | None,
        Option(
            metavar="M",
            min=1,
            help="Compare the M highest and M lowest heads; by default a twelfth of all.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare rankings: Spearman's rho of each pair, and their shared highest and lowest heads.

    Example:

        deadhead compare en.json de.json zh.json
    """
    if len(files) < 2:
        raise BadParameter("name at least two rankings", param_hint="RANKING")
    from deadhead.ranking import Ranking, check_same_build, correlations

    names = [str(file) for file in files]
    rankings = [Ranking.load(file) for file in files]
    check_same_build(rankings, names)
    shared = min(len({*one.scores} & {*other.scores}) for one, other in combinations(rankings, 2))
    if heads is not None and heads > shared:
        message = f"expects at most {shared}, the heads that the rankings share, got {heads}"
        raise BadParameter(message, param_hint="--heads")
    m = heads or max(1, shared // 12)
    pairs = []
    for (name, ranking), (other, second) in combinations(zip(names, rankings, strict=True), 2):
        rho = ranking.spearman(second)
        facts: dict[str, Any] = {"spearman": {"rho": rho.rho, "p": rho.p, "heads": rho.n}}
        overlap = ranking.overlap(second, m)._asdict()
        pairs.append({"rankings": [name, other], **facts, "overlap": overlap})
    methods = [ranking.method for ranking in rankings]
    matrix = correlations(rankings)
    if as_json:
        names_and_matrix = {"rankings": names, "methods": methods, "spearman": matrix.tolist()}
        print_json({**names_and_matrix, "pairs": pairs})
        return
    _print_tables([file.stem for file in files], matrix, pairs, m)
    for noun, values in (("method", methods), ("model", [each.model for each in rankings])):
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            typer.echo(
                f"These rankings are of different {noun}s: {', '.join(different)}. "
                f"Differences may come from the {noun}, not from the language."
            )


def _print_tables(names: list[str], matrix: Any, pairs: list[dict[str, Any]], m: int) -> None:
    rows = [
        (name, *(f"{value:.3f}" for value in row)) for name, row in zip(names, matrix, strict=True)
    ]
    print_table(("Spearman", *names), rows)
    rows = []
    for pair, (first, second) in zip(pairs, combinations(names, 2), strict=True):
        rho, overlap = pair["spearman"], pair["overlap"]
        cells = (str(overlap["highest"]), str(overlap["lowest"]), f"{overlap['by_chance']:.1f}")
        rows.append((f"{first} / {second}", f"{rho['rho']:.3f}", f"{rho['p']:.2g}", *cells))
    shared = (f"{m} highest shared", f"{m} lowest shared", "by chance")
    print_table(("pair", "rho", "p", *shared), rows)
