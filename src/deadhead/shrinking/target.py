"""Targets, the size or speed to reach: `heads=0.75`, `macs="50%"`. Loads no torch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Kind
from deadhead.strategies.amounts import count as count_of_share
from deadhead.strategies.amounts import exact_number

# What is read: the share or the number of heads and neurons to remove; the share of MACs and
# parameters that remains, or the megabytes; how many times as fast.
TARGETS = ("heads", "neurons", "macs", "parameters", "megabytes", "speedup")
MIXED = ("parameters", "megabytes", "speedup")  # targets for which whole layers may leave too
KINDS: tuple[Kind, ...] = ("heads", "neurons")
EXAMPLES = {
    "layers": "0.25, 25%, 3 or [3, 7]",
    "heads": "0.5, 50% or 12",
    "neurons": "0.5, 50% or 1024",
    "macs": "0.5 or 50%",
    "parameters": "0.7 or 70%",
    "megabytes": "120",
    "speedup": "1.5",
}
TYPED = {  # as options of `deadhead shrink`
    "layers": "--remove-layers 25%",
    "heads": "--remove-heads 50%",
    "neurons": "--remove-neurons 50%",
    "macs": "--keep-macs 50%",
    "parameters": "--keep-parameters 70%",
    "megabytes": "--keep-megabytes 120",
    "speedup": "--speedup 1.5",
}
MEANING = {
    "layers": "a share of the layers between 0 and 1, a whole number or a list of them, to remove",
    "heads": "a share of the heads between 0 and 1, or a whole number of them, to remove",
    "neurons": "a share of the neurons between 0 and 1, or a whole number of them, to remove",
    "macs": "the share of the multiply-accumulates that remains, between 0 and 1",
    "parameters": "the share of the parameters that remains, between 0 and 1",
    "megabytes": "the megabytes of weights that remain, a number above 0",
    "speedup": "a number between 1 and 1000",
}

RANGES = {"megabytes": (0, 10**9), "speedup": (1, 1000)}  # for other targets: 0 to 1
LAST = "one head, with those that share its keys and values,"
Amount = int | Fraction  # a whole number counts heads or neurons; a fraction is a share
LayerAmount = Amount | tuple[str, ...]  # or the layers by name


@dataclass(frozen=True)
class Allowed:
    """Which numbers of heads and neurons the layers may keep.

    even: the same number in every layer, at least one.
    multiple: a multiple of this number.
    """

    even: bool = False
    multiple: int = 1


def read_allowed(even: bool, multiple: int | None, targets: Collection[str]) -> Allowed:
    """The numbers that `even` and `multiple` ask for; targets: those that are set."""
    if multiple is not None and (type(multiple) is not int or multiple < 1):
        hint = "for instance multiple=64; on the command line --multiple 64"
        raise DeadheadError(f"`multiple` expects a whole number from 1 on, got {multiple!r}.", hint)
    if (even or multiple is not None) and not targets:
        raise DeadheadError(
            f"`{'even' if even else 'multiple'}` expects heads or neurons to remove, got neither.",
            "leave it out: a model with fewer layers is as even as before; or give neurons=0.5",
        )
    return Allowed(bool(even), multiple or 1)


def read_targets(values: Mapping[str, Any], *, layers: bool = False) -> dict[str, Amount]:
    """The targets that are set, read and checked: one of them, or heads and neurons together.

    layers: whole layers are removed too, so that there may be no other target.
    """
    targets = {name: _read(name, value) for name, value in values.items() if value is not None}
    names = (*TARGETS, "layers")
    examples = ", ".join(f"{name}={EXAMPLES[name].split()[0].strip(',')}" for name in names)
    if not targets and not layers:
        typed = ", ".join(TYPED[name] for name in names)
        hint = f"give one of {examples}; on the command line one of {typed}"
        raise DeadheadError("expected a target, got none.", hint)
    if len(targets) > 1 and set(targets) != {"heads", "neurons"}:
        raise DeadheadError(
            f"expected one target, or heads and neurons together, got {' and '.join(targets)}.",
            "leave all but one out",
        )
    return targets


def read_layers(value: Any) -> LayerAmount | None:
    """The layers to remove: a share, a number, or their names: [3, 7] or "encoder.3,decoder.7"."""
    if value is None:
        return None
    if isinstance(value, str) and ("," in value or any(letter.isalpha() for letter in value)):
        names = value.split(",")
    elif isinstance(value, list | tuple | set | frozenset):
        names = [str(name) for name in value]
    else:
        return _read("layers", value)
    names = [name.strip() for name in names]
    if not names or not all(names):
        raise _wrong("layers", value)
    return tuple(names)


def kinds_of(targets: Mapping[str, Amount]) -> tuple[Kind, ...]:
    """The kinds of units that may be removed: those that are named, or both."""
    return tuple(kind for kind in KINDS if kind in targets) or KINDS


def check_score(score: object) -> None:
    if score is not None and not callable(score):
        hint = "for instance score=lambda model: evaluate(model, datasets)"
        raise DeadheadError(f"`score` expects a function of the model, got {score!r}.", hint)


def count_of(name: str, amount: Amount, total: int, most: int, stays: str = LAST) -> int:
    """Return how many of `total` heads or neurons an amount removes.

    most: the limit, because of what must stay.
    """
    number = amount if isinstance(amount, int) else count_of_share(100 * amount, total)
    if number > most:
        hint = f"the model has {total:,}; give a smaller number, or a share such as 0.5"
        if most < total and name == "layers":
            hint += " (one layer of each stack must stay)"
        elif most < total:
            hint += f" ({stays} must stay)"
        units = name.removesuffix("s") if most == 1 else name
        raise DeadheadError(f"`{name}` expects at most {most:,} {units}, got {number:,}.", hint)
    if not number:
        hint = f"give a larger share, or a number such as {name}=1"
        share = f"{float(amount):.3g} of {total:,} {name}"
        raise DeadheadError(f"`{name}` expects to remove something, got {share}.", hint)
    return number


def _read(name: str, value: Any) -> Amount:
    text = str(value).strip()
    try:
        if isinstance(value, bool):
            raise ValueError
        number = exact_number(text.removesuffix("%"))
    except ValueError:
        raise _wrong(name, value) from None
    if text.endswith("%"):
        number /= 100
    elif name in (*KINDS, "layers") and text.isdecimal():
        if number < (name != "layers"):  # no layer: a target takes heads and neurons alone
            raise _wrong(name, value)
        return int(number)
    low, high = RANGES.get(name, (0, 1))
    if not low < number < high:
        raise _wrong(name, value)
    return number


def _wrong(name: str, value: object) -> DeadheadError:
    hint = f"for instance {name}={EXAMPLES[name]}; on the command line {TYPED[name]}"
    return DeadheadError(f"`{name}` expects {MEANING[name]}, got {value!r}.", hint)
