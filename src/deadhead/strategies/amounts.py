"""How people say what to remove: percentages, numbers of heads per layer or block, and sets of layers.

These functions read what a strategy was given, as a Python value or as typed on a command line or in a
recipe, and refuse what cannot be meant. They know nothing of chance or scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import HeadLayout, spans
from deadhead.papers import stated

ROUNDINGS: dict[str, Callable[[Fraction], int]] = {  # from the exact share of heads to remove
    "nearest": lambda share: floor(share + Fraction(1, 2)),  # a half goes up: one more is removed
    "floor_pruned": floor,
    "floor_kept": ceil,
}
LAYER_WORDS: dict[
    str, Callable[[Sequence[int], int, int], Sequence[int]]
] = {  # (layers from the bottom, how many, first)
    "top": lambda layers, k, first: layers[len(layers) - k :],
    "bottom": lambda layers, k, first: layers[:k],
    "middle": lambda layers, k, first: layers[(len(layers) - k) // 2 :][:k],
    "odd": lambda layers, k, first: layers[1 - first :: 2][:k],
    "even": lambda layers, k, first: layers[first::2][:k],
}


def count(percent: float | Fraction, total: int, rounding: str = "nearest") -> int:
    """How many of `total` heads a percentage removes.

    rounding: to the `nearest` whole number (a half removes one more), or down, of the heads removed
        (`floor_pruned`) or of those kept (`floor_kept`).
    """
    if rounding not in ROUNDINGS:
        raise unknown_name("rounding", rounding, ROUNDINGS)
    try:
        exact = Fraction(
            str(percent)
        )  # by way of its text: 0.1 is a tenth, not the float beside it
    except (ValueError, ZeroDivisionError):
        raise HeadError(
            f"{percent!r} is not a percentage.", "give a number from 0 to 100"
        ) from None
    if not 0 <= exact <= 100:
        raise HeadError(f"{percent} % is out of range.", "give a percentage from 0 to 100")
    return ROUNDINGS[rounding](exact * total / 100)


def whole(value: object, what: str) -> int:
    """A number of heads."""
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise HeadError(
            f"{what} is {value!r}, not a number of heads.", "give a whole number, 0 or more"
        )
    return int(text)


def counts(given: object) -> list[int]:
    """The numbers in `888444`, in `12,12,6`, or in a sequence."""
    numbers: Iterable[object] = given if isinstance(given, Sequence) else str(given)
    if isinstance(numbers, str):
        numbers = numbers.strip().rstrip(",").split(",") if "," in numbers else numbers.strip()
    return [whole(number, f"a part of {given!r}") for number in numbers]


def block_named(layout: HeadLayout, name: str) -> str:
    """A block by its name, ours or the papers'."""
    block = stated("blocks").get(name.strip(), name.strip())
    if block not in layout.blocks:
        raise unknown_name("block", block, layout.blocks)
    return block


def by_block(layout: HeadLayout, given: Any) -> dict[str, Any]:
    """What was given for each block: a mapping, a sequence in the papers' order, or either in its written form."""
    if isinstance(given, str | int):
        written = str(given).strip("; ")
        given = (
            [part.partition("=")[::2] for part in written.split(";")]
            if "=" in written
            else written.split("/")
        )
        pairs = given if "=" in written else _in_paper_order(layout, given)
    else:
        pairs = (
            list(given.items()) if isinstance(given, Mapping) else _in_paper_order(layout, given)
        )
    named = {block_named(layout, name): value for name, value in pairs}
    if len(named) < len(pairs):
        raise HeadError(f"a block is named twice in {given!r}.", "name each block once")
    return named


def _in_paper_order(layout: HeadLayout, values: Sequence[Any]) -> list[tuple[str, Any]]:
    order = list(stated("blocks").values())
    names = sorted(
        layout.blocks, key=lambda block: order.index(block) if block in order else len(order)
    )
    if len(names) != len(values):
        hint = f"give one for each of {', '.join(names)}, in this order, or name the blocks you mean: BLOCK=...;BLOCK=..."
        raise HeadError(
            f"{'/'.join(map(str, values))} is for {len(values)} blocks, but there are {len(names)}.",
            hint,
        )
    return list(zip(names, values, strict=True))


def layer_set(
    which: str | int | Iterable[int],
    layers: Sequence[int],
    block: str = "the model",
    first: int = 1,
) -> frozenset[int]:
    """The layers that a text such as `top 3 + bottom 3` or `0,2,5-7` means; parts are joined by + or a comma.

    Numbers are layers as heads print them, counted from 0. Words count the layers there are, from the
    input up: `top 3`, `bottom 3`, `middle 4` (centred; nearer the bottom where it cannot be), and `odd`
    and `even`, all of them or the lowest few (`odd 3`). Odd and even alone number the layers from 1, as
    the papers do: odd is the first, third, fifth, layers 0, 2, 4. `first=0` numbers them from 0.
    """
    if first not in (0, 1):
        raise HeadError(
            f"first is {first!r}.",
            "use 1 to call the lowest layer odd, as the papers do, or 0 to call it even",
        )
    text = (
        which
        if isinstance(which, str)
        else ",".join(map(str, [which] if isinstance(which, int) else which))
    )
    return frozenset(
        layer
        for part in re.split(r"[+,]", text)
        for layer in _one_part(part.strip().lower(), layers, block, first)
    )


def _one_part(part: str, layers: Sequence[int], block: str, first: int) -> Sequence[int]:
    if numbers := re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part):
        low, high = int(numbers[1]), int(numbers[2] or numbers[1])
        if low > high or not {low, high} <= set(layers):
            raise HeadError(
                f"{block} has no layers {part}.", f"its layers are {spans(layers)}, counted from 0"
            )
        return [layer for layer in layers if low <= layer <= high]
    phrase = re.fullmatch(r"([a-z]+)\s*(\d+)?", part)
    if not phrase:
        raise HeadError(
            f"{part!r} is not a set of layers.",
            "write for instance: top 3 + bottom 3, middle 4, odd, or 0,2,5-7",
        )
    word, number = phrase.groups()
    if word not in LAYER_WORDS:
        raise unknown_name("layer set", word, LAYER_WORDS)
    there_are = len(LAYER_WORDS[word](layers, len(layers), first))
    if number is None and word not in ("odd", "even"):
        raise HeadError(
            f"{word!r} does not say how many layers.",
            f"write for instance: {word} {max(1, there_are // 2)}",
        )
    if number is not None and int(number) > there_are:
        what = f"{word} layers" if word in ("odd", "even") else "layers"
        raise HeadError(
            f"{part!r}: {block} has {there_are} {what}.", f"use {word} {there_are} or fewer"
        )
    return LAYER_WORDS[word](layers, there_are if number is None else int(number), first)
