"""What removing heads saves: size, arithmetic, disk, time and memory, beside another model.

Both models are timed in turns in one run, so that a busy machine slows both. Times are medians
with their interquartile range; their ratio is the median of the ratios of the rounds. Peak memory
is that of a fresh process for each model, which loads it and runs one batch: on a CPU everything
the process used, Python and torch included, on a GPU what was allocated there.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from deadhead.device import device_named
from deadhead.errors import DeadheadError
from deadhead.heads.discover import discover
from deadhead.heads.load import load
from deadhead.heads.model_class import AS_SAVED
from deadhead.numerics import is_half, onednn

from .runtime_worker import peak_bytes as peak_of_process
from .timing import in_turns

CHILD = """
import sys, torch
from deadhead.heads import load
from deadhead.heads.verify.bench import inputs, peak_bytes
device = torch.device(sys.argv[4])
model = load(sys.argv[1], auto=sys.argv[5] or None, dtype=sys.argv[6]).eval().to(device)
with torch.no_grad():
    model(**inputs(model, int(sys.argv[2]), int(sys.argv[3])))
print(peak_bytes(device))
"""


def bench(
    model: str | Path,
    against: str | Path,
    *,
    batches: Sequence[int] = (1, 8),
    lengths: Sequence[int] = (32, 128),
    repeats: int = 10,
    device: str | None = None,
    auto: str | None = None,
    dtype: str = AS_SAVED,
) -> dict[str, Any]:
    """Measure two models, folder or hub name, side by side; every number comes with its ratio.

    Both are loaded with the same `auto` and `dtype` (names, see `load`).
    """
    for name, values in (("batch", batches), ("length", lengths), ("repeats", (repeats,))):
        if not values or min(values) < 1:
            got = ", ".join(map(str, values))
            raise DeadheadError(f"`{name}` expects numbers of at least 1, got {got}.")
    place = device_named(device)
    names = (str(model), str(against))
    pair = [load(name, auto=auto, dtype=dtype).eval().to(place) for name in names]
    rows = [
        _row("heads", [len(discover(m)) for m in pair]),
        _row("parameters", [sum(p.numel() for p in m.parameters()) for m in pair]),
        _row("disk bytes", [disk_bytes(name) for name in names]),
    ]
    shapes = [(b, n) for b in batches for n in lengths]
    for b, n in shapes:
        feeds = [inputs(m, b, n) for m in pair]
        flops = [_flops(m, feed) for m, feed in zip(pair, feeds, strict=True)]
        rows += [_row(f"FLOPs {b} x {n}", flops)]
        rows += [_seconds(f"seconds {b} x {n}", pair, feeds, repeats)]
    b, n = shapes[-1]
    how = (str(place), auto or "", dtype)
    peaks = [_peak_of_process(name, b, n, how) for name in names]
    rows += [_row(f"peak memory bytes {b} x {n}", peaks)]
    return {
        "model": names[0],
        "against": names[1],
        "device": _device_name(place),
        "threads": torch.get_num_threads(),
        "rows": rows,
    }


def _row(what: str, values: list[Any]) -> dict[str, Any]:
    model, against = values
    ratio = model / against if model is not None and against else None
    return {"what": what, "model": model, "against": against, "ratio": ratio}


def inputs(model: Any, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random inputs of the kind the model reads, on its device: text, images or sound features."""
    generator = torch.Generator().manual_seed(0)
    config, main = model.config, getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values":
        side = config.image_size
        size = side if isinstance(side, list | tuple) else (side, side)
        pixels = torch.randn(batch, config.num_channels, *size, generator=generator)
        feed = {"pixel_values": pixels}
    elif main == "input_features":
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        feed = {"input_features": torch.randn(shape, generator=generator)}
        feed["decoder_input_ids"] = torch.randint(
            3, config.vocab_size, (batch, length), generator=generator
        )
    else:
        feed = _tokens(model, batch, length, generator)
    return {name: tensor.to(next(model.parameters()).device) for name, tensor in feed.items()}


def _tokens(
    model: Any, batch: int, length: int, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    longest = getattr(model.config, "max_position_embeddings", None)
    if isinstance(longest, int) and length > longest:
        raise DeadheadError(
            f"`length` expects at most the {longest} positions of this model, got {length}.",
            f"use --length {longest - 2} or less",
        )
    words = int(model.get_input_embeddings().weight.shape[0])
    feed = {"input_ids": torch.randint(3, words, (batch, length), generator=generator)}
    feed["attention_mask"] = torch.ones_like(feed["input_ids"])
    if getattr(model.config, "is_encoder_decoder", False):
        feed["decoder_input_ids"] = torch.randint(3, words, (batch, length), generator=generator)
    return feed


@torch.no_grad()
def _flops(model: Any, feed: dict[str, torch.Tensor]) -> int:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    # the counter does not see into fused attention
    with sdpa_kernel(SDPBackend.MATH), onednn(is_half(model)), counter:
        model(**feed)
    return int(counter.get_total_flops())


@torch.no_grad()
def _seconds(
    what: str, pair: list[Any], feeds: list[dict[str, torch.Tensor]], repeats: int
) -> dict[str, Any]:
    def run(model: Any, feed: dict[str, torch.Tensor]) -> None:
        with onednn(is_half(model)):  # a half-precision model may change the kernels of both
            model(**feed)

    calls = [partial(run, model, feed) for model, feed in zip(pair, feeds, strict=True)]
    times = in_turns(calls, pair[0].device, repeats)
    row = _row(what, [statistics.median(seconds) for seconds in times])
    row["ratio"] = statistics.median(a / b for a, b in zip(*times, strict=True))
    return {**row, "spread": [_interquartile_range(seconds) for seconds in times]}


def _interquartile_range(values: list[float]) -> float:
    if len(values) < 4:
        return max(values) - min(values)
    quarters = statistics.quantiles(values, n=4)
    return quarters[2] - quarters[0]


def disk_bytes(name: str) -> int | None:
    folder = Path(name)
    return sum(f.stat().st_size for f in folder.glob("*.safetensors")) if folder.is_dir() else None


def _peak_of_process(name: str, batch: int, length: int, how: tuple[str, ...]) -> int | None:
    """The peak memory of a process that loads the model and runs one batch; None if it failed."""
    command = [sys.executable, "-c", CHILD, name, str(batch), str(length), *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else None


def peak_bytes(device: torch.device) -> int:
    """The most memory that this process has used at any time, on this device."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_of_process()


def _device_name(device: torch.device) -> str:
    on_gpu = device.type == "cuda"
    return torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()} CPU"
