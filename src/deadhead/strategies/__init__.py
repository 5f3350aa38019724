"""Which heads to remove: pure functions, without a model and without torch.

Every strategy is called in the same way and returns the set of heads to remove; the same arguments
give the same set:

    strategy(layout, amount, *, seed=0, scores=None, **its own options)

`amount` is a percentage, a number of heads, a layer set: each strategy has its own kind. `seed` (a
whole number or a text) matters to strategies that draw, `scores` to those that go by a ranking;
every strategy takes both, so that a study can call any of them. To keep to some blocks, pass a
layout of them: `HeadLayout(layout.of("encoder"))`.

What holds for all of them:
- Only heads the layout still has are drawn or counted.
- Heads that share a key/value head (`Attention.groups`) go together.
- A number of heads is removed exactly or refused, never rounded.
- Draws use `random.Random` seeded with a text and its method `random()`, and nothing else of it:
  Python promises to keep these, so a seed means the same heads on every machine and version.

`STRATEGIES` has a `Strategy` for each name, which states everything about it: the amounts it takes,
whether it draws or needs scores, its words for tables and help.
"""

from typing import Any

from deadhead.layout import HeadLayout
from deadhead.registry import Registry
from deadhead.registry import options as checker

from .selection import (
    highest,
    layers,
    lowest,
    lowest_layers,
    per_block,
    per_layer,
    random,
    random_k,
    random_layers,
    stratified,
)
from .strategy import Amount, Heads, HeadScores, Strategy

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    __name__,
    {
        "random": "selection:RANDOM",
        "random_k": "selection:RANDOM_K",
        "stratified": "selection:STRATIFIED",
        "per_layer": "selection:PER_LAYER",
        "per_block": "selection:PER_BLOCK",
        "layers": "selection:LAYER_SET",
        "lowest": "selection:LOWEST",
        "highest": "selection:HIGHEST",
        "lowest_layers": "selection:LOWEST_LAYERS",
        "random_layers": "selection:RANDOM_LAYERS",
    },
)


def choose(name: str, layout: HeadLayout, amount: Any, **options: Any) -> Heads:
    """Call a strategy by name, with its amount and options checked."""
    strategy = STRATEGIES[name]
    checker.check(name, strategy.select, options)
    strategy.check_amount(name, amount)
    return strategy.select(layout, amount, **options)


__all__ = ["STRATEGIES", "Amount", "HeadScores", "Heads", "Strategy", "choose", "highest"]
__all__ += ["layers", "lowest", "lowest_layers", "per_block", "per_layer", "random", "random_k"]
__all__ += ["random_layers", "stratified"]
