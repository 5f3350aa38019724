"""Run a model from the middle: layers below the first change return what they returned before.

`Replay` wraps the layers that hold attention. While it records, it keeps the output of each; when
it replays from a layer, the layers before it return the same output at once, repeated as often as
the batch is. It knows no architecture: a layer is the module with a number in its path, and layers
come in the order in which the model calls them, so that closing a decoder head also skips the whole
encoder.

In some models a layer reads what an earlier layer left behind, such as its keys (Gemma 3n). There
the earlier layers cannot be skipped. So the first recording is replayed once without a change, and
where that gives another output, every later run is a whole one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.heads.layers import replaced
from deadhead.heads.site import Site
from deadhead.layout import Batch, LayerKey

from .loss import examples_of


class Replay:
    """The wrapped layers of one model; made by `replaying`."""

    def __init__(self, sites: list[Site]):
        self.layer_of = {s.layer_key: layer_path(s.path) for s in sites}
        self.time_first = any(s.time_first for s in sites)
        self.calls: list[str] = []  # layers in the order they were called when recording
        self.outputs: list[Any] = []
        self.works: bool | None = None  # None: not known before the first recording
        self.recording, self.start, self.times, self.rows, self.call = False, 0, 1, 0, 0

    def record(self, run: Callable[[Batch], Any], batch: Batch) -> Any:
        """What `run` gives for a batch, with the forward pass inside recorded."""
        self.calls, self.outputs, self.rows, self.recording = [], [], examples_of(batch), True
        try:
            result = run(batch)
        finally:
            self.recording = False
        if self.works is None:
            self.works = len(self.calls) < 2 or self._gives_again(run, batch, result)
        if not self.works:
            self.calls, self.outputs = [], []
        return result

    def _gives_again(self, run: Callable[[Batch], Any], batch: Batch, result: Any) -> bool:
        """Whether the last layer alone gives the recorded result."""
        self.start, self.call = len(self.calls) - 1, 0
        try:
            again = run(batch)
        except Exception:  # any: it depends on how the model keeps what its layers share
            return False
        finally:
            self.start = 0
        pairs = zip(_tensors(result), _tensors(again), strict=True)
        return all(torch.allclose(*pair, rtol=1e-3, atol=1e-5, equal_nan=True) for pair in pairs)

    @contextmanager
    def start_at(self, place: LayerKey, times: int = 1) -> Iterator[None]:
        """Start the forward pass inside at this attention, with the batch repeated `times`."""
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
                return self._repeated(self.outputs[call])
            output = forward(*args, **kwargs)
            if self.recording:
                self.calls.append(path)
                self.outputs.append(output)
            return output

        return layer

    def _repeated(self, output: Any) -> Any:
        """The output for a batch, as that for the batch repeated."""
        if isinstance(output, Tensor):
            axis = 1 if self.time_first else 0
            if self.times == 1 or output.dim() <= axis or output.shape[axis] != self.rows:
                return output
            return torch.cat([output] * self.times, dim=axis)
        if isinstance(output, list | tuple):
            return type(output)(self._repeated(part) for part in output)
        return output


def _tensors(result: Any) -> list[Tensor]:
    """The tensors of a result: itself, or those of a ModelOutput, without those inside tuples."""
    parts = result.values() if isinstance(result, Mapping) else [result]
    return [part for part in parts if isinstance(part, Tensor)]


def layer_path(path: str) -> str:
    """The path of a module up to its first number (`bert.encoder.layer.3`); "" without one."""
    parts = path.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdecimal()), None)
    return "" if number is None else ".".join(parts[: number + 1])


@contextmanager
def replaying(model: nn.Module, sites: list[Site]) -> Iterator[Replay]:
    """Wrap the layers of a model, and unwrap them afterwards. Use without gradients."""
    replay = Replay(sites)
    with ExitStack() as stack:
        for path in dict.fromkeys(filter(None, replay.layer_of.values())):
            module = model.get_submodule(path)
            stack.callback(replaced(module, replay.wrap(path, module.forward)))
        yield replay


def repeated(batch: Batch, times: int) -> dict[str, Tensor]:
    """The whole batch `times` over, one copy after the other."""
    if times == 1:
        return dict(batch)
    examples = examples_of(batch)
    return {
        name: torch.cat([value] * times)
        if isinstance(value, Tensor) and value.dim() and len(value) == examples
        else value
        for name, value in batch.items()
    }
