"""`deadhead prune`: remove heads from a model and save the rest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import BadParameter, Option

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import GROUPS
from deadhead.strategies import STRATEGIES, choose

from ._names import strategy_flag
from ._options import AsJson, Auto, Dtype, Force, Form, Model, ModelOut, Seed
from ._outputs import check_folder
from ._progress import print_json, size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from deadhead.layout import Groups, HeadLayout
    from deadhead.ranking import Ranking
    from deadhead.saved.prune import Pruned


class WithStrategyFlags:
    """A command whose `**amounts` come from flags, one for each strategy in the registry.

    A class, because a strategy may be registered after this file is imported.
    """

    def __init__(self, command: Callable[..., None]):
        update_wrapper(self, command)
        self.command = command

    def __call__(self, **values: Any) -> None:
        self.command(**values)

    @property
    def __signature__(self) -> Signature:
        signature = inspect.signature(self.command, eval_str=True)
        fixed = [p for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        end = 1 + [p.name for p in fixed].index("remove_heads")
        every = [*fixed[:end], *map(_parameter, STRATEGIES), *fixed[end:]]
        return signature.replace(parameters=every)


def _parameter(name: str) -> Parameter:
    strategy = STRATEGIES[name]
    amount = strategy.amount
    option = Option(
        strategy_flag(name),
        metavar=amount.metavar,
        help=strategy.help,
        parser=_percentage if amount.typed is float else None,
    )
    kind = Annotated[amount.typed | None, option]  # type: ignore[name-defined]
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)


def _percentage(text: str) -> float:
    try:
        return float(str(text).removesuffix("%"))
    except ValueError:
        raise BadParameter(f"expects a percentage such as 50%, got {text!r}") from None


@WithStrategyFlags
def prune(
    model: Model,
    out: ModelOut,
    remove_heads: Annotated[
        str,
        Option(
            metavar="LIST", help="Remove these heads, comma-separated: encoder.3.7,encoder.4.0."
        ),
    ] = "",
    per: Annotated[
        str,
        Option(
            metavar="model|block|layer",
            help="With --remove-random: take the percentage of the model, of each block or of "
            "each layer.",
        ),
    ] = "model",
    ranking: Annotated[
        Path | None, Option(metavar="FILE", help="The ranking, written by `deadhead rank`.")
    ] = None,
    seed: Seed = 0,
    auto: Auto = None,
    dtype: Dtype = None,
    drop_output_bias: Annotated[
        bool,
        Option(
            "--drop-output-bias", help="Also remove the output bias of layers that lose all heads."
        ),
    ] = False,
    groups: Annotated[
        str,
        Option(
            metavar="whole|expand",
            help="Where heads share key/value heads. whole: remove whole groups of them. expand: "
            "remove any heads, and copy key/value heads where groups become uneven.",
        ),
    ] = "whole",
    form: Form = "compact",
    force: Force = False,
    as_json: AsJson = False,
    **amounts: Any,  # by strategy, each with a flag of its own
) -> None:
    """Remove heads from a model and save the rest.

    Examples:

        deadhead prune bert-base-cased --remove-heads encoder.3.7,encoder.4.0 --out small

        deadhead prune ./my-model --remove-random 50% --seed 1 --out half

        deadhead prune ./my-model --remove-lowest 12 --ranking ranking.json --out better

        deadhead prune ./my-llama --remove-lowest 12 --ranking r.json --groups expand --out single
    """
    # Longer than most functions: half of it is the list of options and the help.
    strategy, amount = _choice(remove_heads, amounts)
    if groups not in GROUPS:
        raise unknown_name("value of --groups", groups, GROUPS)
    check_folder(out, "--out", model=model, force=force)
    scored = _ranking(strategy, ranking, model)

    def choose_heads(layout: HeadLayout) -> Any:
        if not strategy:
            return remove_heads.split(",")
        options: dict[str, Any] = {"per": per} if strategy == "random" else {}
        if scored is not None:
            options["scores"] = scored.scores_for(layout)
        return choose(strategy, layout, amount, seed=seed, **options)

    from deadhead.saved.prune import prune_saved

    pruned = prune_saved(
        model, out, choose_heads, auto=auto, dtype=dtype, form=form,
        drop_output_bias=drop_output_bias, groups=cast("Groups", groups),
    )  # fmt: skip
    if as_json:
        facts = {**vars(pruned), "removed": [str(head) for head in pruned.removed]}
        print_json({"out": str(out), "form": form, **facts})
    else:
        _print_pruned(pruned, out, dtype)
        if pruned.group > 1:
            _print_groups(pruned, groups)


def _choice(heads: str, amounts: dict[str, Any]) -> tuple[str, Any]:
    """The strategy that has an amount, checked; an empty one for a list of heads."""
    chosen = {name: value for name, value in amounts.items() if value not in ("", None)}
    number = len(chosen) + bool(heads)
    if number != 1:
        names = ", ".join(["--remove-heads", *map(strategy_flag, STRATEGIES)])
        raise BadParameter(f"give exactly one of {names} (got {number or 'none'})")
    for strategy, amount in chosen.items():
        STRATEGIES[strategy].check_amount(strategy, amount)
        return strategy, amount
    return "", None


def _ranking(strategy: str, file: Path | None, model: str) -> Ranking | None:
    if not strategy or not STRATEGIES[strategy].needs_scores:
        return None
    if file is None:
        hint = f"deadhead rank {model} ... --out ranking.json, then add --ranking ranking.json"
        raise HeadError(f"{strategy_flag(strategy)} needs a ranking.", hint)
    from deadhead.ranking import Ranking

    return Ranking.load(file)


def _print_groups(pruned: Pruned, groups: str) -> None:
    before, after = pruned.cache
    if groups == "whole":
        typer.echo(
            f"up to {pruned.group} heads share a key/value head: whole groups of them were "
            "removed; --groups expand removes single heads"
        )
    else:
        typer.echo("single heads removed; key/value heads were copied where groups became uneven")
    if before:
        change = f"{after / before - 1:+.1%}" if after != before else "the same"
        typer.echo(f"key/value cache: {before:,} -> {after:,} bytes for each token ({change})")


def _print_pruned(pruned: Pruned, out: Path, dtype: str | None) -> None:
    removed, (before, after) = len(pruned.removed), pruned.parameters
    share = after / before - 1  # above zero where key/value heads were copied
    change = f"{abs(share):.1%} {'more' if share > 0 else 'less'}"
    typer.echo(
        f"{removed} of {removed + pruned.left} heads removed, "
        f"{before:,} -> {after:,} parameters ({change}), in {out}"
    )
    reason = "as in the source" if dtype in (None, "auto") else "as --dtype says"
    typer.echo(f"weights in {pruned.dtype}, {reason}: {size_text(pruned.bytes)}")
    if pruned.kept_files:
        typer.echo(f"kept from the source: {', '.join(pruned.kept_files)}")
