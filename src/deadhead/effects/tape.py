"""Follow the residual stream through a run, and compute any part of it again from other values.

A tape keeps every operation that reads a followed tensor: the additions of layers, norms, factors,
whatever the model does. It knows no architecture. Each followed tensor has a slot, numbered in the
order of the run, so that an operation only reads slots below those that it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from torch import Tensor
from torch.overrides import TorchFunctionMode

from deadhead.errors import UnsupportedModel
from deadhead.heads.residual import works_in_place

ADDITIONS = ("add", "__add__", "__radd__")


@dataclass(frozen=True)
class Slot:
    """Marks a followed tensor in the arguments of an operation."""

    number: int


class Step(NamedTuple):
    """An operation that gave a followed tensor."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    output: int | None  # which of several outputs
    inputs: tuple[int, ...]  # the slots that it reads

    @property
    def is_addition(self) -> bool:
        """Whether it adds two followed tensors, as layers add to the stream."""
        name = getattr(self.function, "__name__", "")
        return name in ADDITIONS and not self.kwargs and len(self.inputs) == 2


class Tape(TorchFunctionMode):
    """Records a run while it is on.

    tensors, steps: by slot; a tensor that was started has no step.
    origins: by slot, a bit for each started tensor that it depends on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []
        self.steps: list[Step | None] = []
        self.origins: list[int] = []
        self.has_ended = False
        self._starts = 0
        self._slots: dict[int, int] = {}  # id of a tensor -> its slot
        self._leaving: dict[int, Tensor] = {}
        self._paused = False

    def start(self, tensor: Tensor) -> int:
        """Follow this tensor from here on; gives its slot."""
        self._starts += 1
        return self._follow(tensor, None, 1 << (self._starts - 1))

    def slot_of(self, tensor: Any) -> int | None:
        return self._slots.get(id(tensor))

    def leave(self, slot: int, tensor: Tensor) -> Tensor:
        """What the model reads instead of a followed tensor after `has_ended` was set.

        From then on nothing is recorded.
        """
        return tensor

    @contextmanager
    def paused(self) -> Iterator[None]:
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def function(self, below: Sequence[int], slot: int) -> Callable[..., Tensor]:
        """The tensor of a slot as a function of those of some slots below."""

        def replay(*fixed: Tensor) -> Tensor:
            values = dict(zip(below, fixed, strict=True))
            for number in changed:
                step = self.steps[number]
                assert step is not None
                args, kwargs = mapped(
                    (step.args, step.kwargs),
                    Slot,
                    lambda slot: values.get(slot.number, self.tensors[slot.number]),
                )
                result = step.function(*args, **kwargs)
                values[number] = result if step.output is None else result[step.output]
            return values.get(slot, self.tensors[slot])

        changed = self._changed({*below}, slot)
        return replay

    def _changed(self, fixed: set[int], last: int) -> list[int]:
        """The slots to compute again, in their order."""
        needed, changed = {last}, {*fixed}
        for number in range(last, min(fixed), -1):
            step = self.steps[number]
            if number in needed and number not in fixed and step is not None:
                needed.update(step.inputs)
        for number in sorted(needed - fixed):
            step = self.steps[number]
            if step is not None and not changed.isdisjoint(step.inputs):
                changed.add(number)
        return sorted(changed - fixed)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs: list[int] = []

        def marked(tensor: Tensor) -> Any:
            slot = self.slot_of(tensor)
            if slot is None:
                return tensor
            inputs.append(slot)
            return Slot(slot)

        if self._paused:
            return func(*args, **kwargs)
        named = mapped((args, dict(kwargs)), Tensor, marked)
        if not inputs:
            return func(*args, **kwargs)
        if self.has_ended:
            if getattr(func, "__name__", "") == "__get__":  # asks for a shape or a device
                return func(*args, **kwargs)
            args, kwargs = mapped((args, dict(kwargs)), Tensor, self._left)
            return func(*args, **kwargs)
        function = func
        if works_in_place(func):
            function = _out_of_place(func)
            slot = self.slot_of(args[0])
            if slot is not None:
                self.tensors[slot] = args[0].clone()
        result = func(*args, **kwargs)
        self._record(function, named, tuple(dict.fromkeys(inputs)), result)
        return result

    def _record(self, function: Any, named: Any, inputs: tuple[int, ...], result: Any) -> None:
        origins = reduce(or_, (self.origins[number] for number in inputs))
        is_tuple, (args, kwargs) = isinstance(result, tuple | list), named
        for number, value in enumerate(result if is_tuple else [result]):
            slot = self.slot_of(value)
            # dropout gives the same tensor again outside of training
            again = slot is not None and self.tensors[slot] is value
            if isinstance(value, Tensor) and value.is_floating_point() and not again:
                output = number if is_tuple else None
                self._follow(value, Step(function, args, kwargs, output, inputs), origins)

    def _follow(self, tensor: Tensor, step: Step | None, origins: int) -> int:
        slot = self._slots[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)  # also keeps its id from being used again
        self.steps.append(step)
        self.origins.append(origins)
        return slot

    def _left(self, tensor: Tensor) -> Tensor:
        slot = self.slot_of(tensor)
        if slot is None:
            return tensor
        if slot not in self._leaving:  # one for all readers, so that their gradients add up
            self._leaving[slot] = self.leave(slot, tensor)
        return self._leaving[slot]


def mapped(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Arguments with every value of a kind changed, also inside of lists."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(mapped(item, kind, change) for item in value)
    if type(value) is dict:
        return {name: mapped(item, kind, change) for name, item in value.items()}
    return value


def _out_of_place(func: Any) -> Any:
    """The function that gives what another writes into its first argument."""
    name: str = func.__name__
    other = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
    function = getattr(Tensor, other, None)
    if function is None or name.startswith("__set"):
        raise UnsupportedModel(
            f"the model writes into a part of its residual stream ({name}), so that its edges "
            "cannot be followed.",
            "patch heads instead: patch_effects(model, clean, corrupt, metric)",
        )
    return function
