"""How people say what to remove: percentages, numbers of heads per layer or block, sets of layers.

These functions read an amount, a Python value or the text of a command line or a recipe, and refuse
what makes no sense. The `Amount`s at the end describe each kind of it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, Literal

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import HeadLayout, spans
from deadhead.papers.catalogue import combined

from .strategy import Amount

Rounding = Literal["nearest", "floor_pruned", "floor_kept"]
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {  # from the exact share of heads to remove
    "nearest": lambda share: floor(share + Fraction(1, 2)),  # a half goes up: one more is removed
    "floor_pruned": floor,
    "floor_kept": ceil,
}
# (layers from the bottom, how many) -> layers; odd is the lowest layer, as in the papers
LAYER_WORDS: dict[str, Callable[[Sequence[int], int], Sequence[int]]] = {
    "top": lambda layers, k: layers[len(layers) - k :],
    "bottom": lambda layers, k: layers[:k],
    "middle": lambda layers, k: layers[(len(layers) - k) // 2 :][:k],
    "odd": lambda layers, k: layers[::2][:k],
    "even": lambda layers, k: layers[1::2][:k],
}
LONGEST_NUMBER, LONGEST_EXPONENT = 4000, 4  # digits
ANY_LAYERS = range(1000)  # more than any model has


def count(percent: float | Fraction, total: int, rounding: str = "nearest") -> int:
    """How many of `total` heads a percentage removes.

    rounding: to the `nearest` whole number (a half removes one more), or down, of the heads removed
        (`floor_pruned`) or of those kept (`floor_kept`).
    """
    if rounding not in ROUNDINGS:
        raise unknown_name("rounding", rounding, ROUNDINGS)
    try:
        exact = exact_number(percent)
    except ValueError:
        raise _not_percent(percent) from None
    if not 0 <= exact <= 100:
        raise _not_percent(percent)
    return ROUNDINGS[rounding](exact * total / 100)


def exact_number(value: object) -> Fraction:
    """A number by way of its text: 0.1 is a tenth, not the nearest float.

    A text that is no number, or has more digits than an amount needs, raises a ValueError.
    """
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    mantissa, _, exponent = text.lower().partition("e")
    # 1e999999999 would be computed for hours
    if len(mantissa) > LONGEST_NUMBER or len(exponent) > LONGEST_EXPONENT:
        raise ValueError(f"{text!r} has more digits than an amount needs")
    try:
        return Fraction(text)
    except ZeroDivisionError as error:
        raise ValueError(text) from error


def _not_percent(value: object) -> HeadError:
    return HeadError(f"expected a percentage from 0 to 100, got {value!r}.", "for instance 50")


def whole(value: object, what: str, unit: str = "heads") -> int:
    """A number of heads, or of layers."""
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or len(text) > LONGEST_NUMBER:
        message = f"{what} expects a whole number of {unit}, 0 or more, got {value!r}."
        raise HeadError(message, "for instance 6")
    return int(text)


def counts(value: object) -> list[int]:
    """The numbers in `888444`, in `12,12,6`, or in a sequence."""
    numbers: Iterable[object] = value if isinstance(value, Sequence) else str(value)
    if isinstance(numbers, str):
        numbers = numbers.strip().rstrip(",").split(",") if "," in numbers else numbers.strip()
    return [whole(number, f"a part of {value!r}") for number in numbers]


def block_named(layout: HeadLayout, name: str) -> str:
    """A block by its name, ours or the papers'."""
    block = combined("blocks").get(name.strip(), name.strip())
    if block not in layout.blocks:
        raise unknown_name("block", block, layout.blocks)
    return block


def parts_of(value: Any) -> list[Any]:
    """The amounts for blocks in a mapping, in `14/31/30`, or in a sequence."""
    if isinstance(value, Mapping):
        return list(value.values())
    return str(value).split("/") if isinstance(value, str | int) else list(value)


def by_block(layout: HeadLayout, value: Any) -> dict[str, Any]:
    """The amount for each block; amounts without names are in the papers' order."""
    amounts = parts_of(value)
    if isinstance(value, Mapping):
        blocks = {block_named(layout, name): amount for name, amount in value.items()}
        if len(blocks) < len(amounts):
            raise HeadError(f"a block is named twice in {value!r}.", "name each block once")
        return blocks
    order = list(combined("blocks").values())
    names = sorted(layout.blocks, key=lambda b: order.index(b) if b in order else len(order))
    if len(names) != len(amounts):
        parts = "/".join(map(str, amounts))
        message = f"{parts} is for {len(amounts)} blocks, but there are {len(names)}."
        raise HeadError(message, f"give one for each of {', '.join(names)}, in this order")
    return dict(zip(names, amounts, strict=True))


def layer_set(
    which: str | int | Iterable[int], layers: Sequence[int], name: str = "the model"
) -> frozenset[int]:
    """The layers in a text such as `top 3 + bottom 3` or `0,2,5-7`; + or a comma joins its parts.

    Numbers are layers as heads print them, counted from 0. Words count the layers there are, from
    the input up: `top 3`, `bottom 3`, `middle 4` (centred; nearer the bottom where it cannot be),
    and `odd` and `even`, all of them or the lowest few (`odd 3`). Odd and even alone number the
    layers from 1, as the papers do: odd is the first, third, fifth, layers 0, 2, 4.
    """
    if not isinstance(which, str):
        which = ",".join(map(str, [which] if isinstance(which, int) else which))
    parts = (part.strip().lower() for part in re.split(r"[+,]", which))
    return frozenset(layer for part in parts for layer in _layers(part, layers, name))


def _layers(part: str, layers: Sequence[int], block: str) -> Sequence[int]:
    if numbers := re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part):
        low, high = int(numbers[1]), int(numbers[2] or numbers[1])
        if low > high:
            hint = f"write the lower layer first: {high}-{low}"
            raise HeadError(f"expected a range of layers from low to high, got {part}.", hint)
        if not {low, high} <= set(layers):
            hint = f"its layers are {spans(layers)}, counted from 0"
            raise HeadError(f"{block} has no layers {part}.", hint)
        return [layer for layer in layers if low <= layer <= high]
    phrase = re.fullmatch(r"([a-z]+)\s*(\d+)?", part)
    if not phrase:
        hint = "write for instance: top 3 + bottom 3, middle 4, odd, or 0,2,5-7"
        raise HeadError(f"expected a set of layers, got {part!r}.", hint)
    word, number = phrase.groups()
    if word not in LAYER_WORDS:
        raise unknown_name("layer set", word, LAYER_WORDS)
    most = len(LAYER_WORDS[word](layers, len(layers)))
    if number is None and word not in ("odd", "even"):
        hint = f"write for instance: {word} {max(1, most // 2)}"
        raise HeadError(f"expected a number of layers after {word!r}, got none.", hint)
    if number is not None and int(number) > most:
        what = f"{word} layers" if word in ("odd", "even") else "layers"
        raise HeadError(f"{part!r}: {block} has {most} {what}.", f"use {word} {most} or fewer")
    return LAYER_WORDS[word](layers, most if number is None else int(number))


# What an amount may be, whatever the model: recipes check it before any model is loaded.


def _percentage(value: Any) -> None:
    if isinstance(value, str):  # 50 and "50" would be two trials
        message = f"expected a percentage from 0 to 100, got the text {value!r}."
        raise HeadError(message, "write a number without quotes, such as 50")
    count(value, 100)


def _number(value: Any, unit: str = "heads") -> None:
    if isinstance(value, str):
        message = f"expected a number of {unit}, got the text {value!r}."
        raise HeadError(message, "write a number without quotes, such as 6")
    whole(value, "k" if unit == "heads" else "n", unit)


HEADS = Amount(
    metavar="K", check=_number, typed=int, axis="heads removed", unit="heads", zero_is_nothing=True
)
PERCENT = Amount(
    metavar="PERCENT",
    check=_percentage,
    typed=float,
    axis="% of heads removed",
    unit="%",
    zero_is_nothing=True,
)
WHOLE_LAYERS = Amount(
    metavar="N",
    check=lambda value: _number(value, "layers"),
    typed=int,
    axis="layers removed",
    unit="layers",
    zero_is_nothing=True,
)
KEPT = Amount(metavar="K", check=_number, typed=int, axis="heads kept in each layer")
KEPT_BY_LAYER = Amount(
    metavar="DIGITS",
    check=lambda value: [counts(part) for part in parts_of(value)],
    axis="heads kept by layer",
)
KEPT_BY_BLOCK = Amount(
    metavar="NUMBERS",
    check=lambda value: [whole(part, "a block") for part in parts_of(value)],
    axis="heads kept by block",
)
LAYERS = Amount(
    metavar="SET", check=lambda value: layer_set(value, ANY_LAYERS), axis="layers pruned"
)
