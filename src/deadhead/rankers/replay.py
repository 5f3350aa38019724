"""Run a model from the middle: layers below the first that changes answer from memory.

`Replay` wraps the layers that hold attention. While it records, it keeps what each said; when it
replays from a layer, the layers called before it say the same again, at once, and however often the
batch is repeated. It knows no architecture: a layer is the module with a number in its path, and
layers come in the order in which the model calls them, so that closing a decoder head also spares
the whole encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.heads.discover import find_sites
from deadhead.heads.sites import Site

from .loss import examples_of


class Replay:
    """The layers of one model, wrapped; made by `replaying`."""

    def __init__(self, found: list[Site]):
        self.layer_of = {(s.block, s.layer): layer_path(s.path) for s in found}
        self.time_first = any(s.time_first for s in found)
        self.calls: list[str] = []  # layers in the order they were called when recording
        self.said: list[Any] = []
        self.recording, self.start, self.times, self.examples, self.call = False, 0, 1, 0, 0

    @contextmanager
    def record(self, examples: int) -> Iterator[None]:
        """The forward pass inside is remembered."""
        self.calls, self.said, self.examples, self.recording = [], [], examples, True
        try:
            yield
        finally:
            self.recording = False

    @contextmanager
    def start_at(self, place: tuple[str, int], times: int = 1) -> Iterator[None]:
        """The forward pass inside, on the recorded batch repeated so many times, begins at the layer of this attention."""
        layer = self.layer_of[place]
        self.start = self.calls.index(layer) if layer in self.calls else 0
        self.times, self.call = times, 0
        try:
            yield
        finally:
            self.start, self.times = 0, 1

    def wrap(self, path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def layer(*args: Any, **kwargs: Any) -> Any:
            call, self.call = self.call, self.call + 1
            if call < self.start:
                return self._again(self.said[call])
            answer = forward(*args, **kwargs)
            if self.recording:
                self.calls.append(path)
                self.said.append(answer)
            return answer

        return layer

    def _again(self, said: Any) -> Any:
        """What was said for a batch, for that batch repeated."""
        if isinstance(said, Tensor):
            axis = 1 if self.time_first else 0
            if self.times == 1 or said.dim() <= axis or said.shape[axis] != self.examples:
                return said
            return torch.cat([said] * self.times, dim=axis)
        if isinstance(said, list | tuple):
            return type(said)(self._again(part) for part in said)
        return said


def layer_path(path: str) -> str:
    """The layer a module belongs to: its path up to the first number (`bert.encoder.layer.3`), or nothing without one."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdecimal()), None)
    return "" if number is None else ".".join(parts[: number + 1])


@contextmanager
def replaying(model: nn.Module) -> Iterator[Replay]:
    """Wrap the layers of a model, and unwrap them afterwards. Use without gradients."""
    found = find_sites(model)
    replay = Replay(found)
    modules: dict[str, Any] = {
        path: model.get_submodule(path) for path in dict.fromkeys(replay.layer_of.values()) if path
    }
    before = {path: module.__dict__.get("forward") for path, module in modules.items()}
    for path, module in modules.items():
        module.forward = replay.wrap(path, module.forward)
    try:
        yield replay
    finally:
        for path, module in modules.items():
            if before[path] is None:
                del module.forward
            else:
                module.forward = before[path]


def repeated(batch: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
    """The whole batch so many times over, one copy after the other."""
    if times == 1:
        return dict(batch)
    examples = examples_of(batch)
    return {
        name: torch.cat([value] * times)
        if isinstance(value, Tensor) and value.dim() and len(value) == examples
        else value
        for name, value in batch.items()
    }
