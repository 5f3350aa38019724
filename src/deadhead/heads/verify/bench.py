"""What removing heads bought: size, arithmetic, disk, time and memory, beside the model it came from.

Both models are timed in turns in one run, so that a busy machine slows both; times are medians with
the middle half of their spread, and their ratio is the median of the ratios of the rounds. Peak memory is
that of a fresh process for each model, which loads it and runs one batch: on a CPU all that the process held,
Python and torch included, on a GPU what was allocated there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from deadhead.device import device_named
from deadhead.errors import DeadheadError
from deadhead.heads.discover import discover
from deadhead.heads.load import load
from deadhead.heads.model_class import AS_SAVED
from deadhead.numerics import is_half, onednn

CHILD = """
import sys, torch
from deadhead.heads import load
from deadhead.heads.verify.bench import inputs, most_held
place = torch.device(sys.argv[4])
model = load(sys.argv[1], auto=sys.argv[5] or None, dtype=sys.argv[6]).eval().to(place)
with torch.no_grad():
    model(**{k: v.to(place) for k, v in inputs(model, int(sys.argv[2]), int(sys.argv[3])).items()})
print(most_held(place))
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

    Both are loaded by the same `auto` and `dtype` (names, see `load`); disk bytes are those of the folders as they are.
    """
    for name, values in (("batch", batches), ("length", lengths), ("repeats", (repeats,))):
        if not values or min(values) < 1:
            raise DeadheadError(f"{name} must be at least 1, met {', '.join(map(str, values))}.")
    place = device_named(device)
    names = (str(model), str(against))
    pair = [load(name, auto=auto, dtype=dtype).eval().to(place) for name in names]
    shapes = [(b, n) for b in batches for n in lengths]
    rows: list[dict[str, Any]] = [
        _row("heads", [len(discover(m)) for m in pair]),
        _row("parameters", [sum(p.numel() for p in m.parameters()) for m in pair]),
        _row("disk bytes", [_disk(name) for name in names]),
    ]
    for b, n in shapes:
        batch = [{k: v.to(place) for k, v in inputs(m, b, n).items()} for m in pair]
        rows.append(
            _row(f"FLOPs {b} x {n}", [_flops(m, x) for m, x in zip(pair, batch, strict=True)])
        )
        rows.append(_latency(f"seconds {b} x {n}", pair, batch, repeats, place))
    b, n = shapes[-1]
    rows.append(
        _row(
            f"peak memory bytes {b} x {n}",
            [_peak(name, b, n, place, auto, dtype) for name in names],
        )
    )
    return {
        "model": names[0],
        "against": names[1],
        "device": _device_name(place),
        "threads": torch.get_num_threads(),
        "rows": rows,
    }


def _row(what: str, values: list[Any]) -> dict[str, Any]:
    ours, theirs = values
    return {
        "what": what,
        "model": ours,
        "against": theirs,
        "ratio": ours / theirs if ours is not None and theirs else None,
    }


def inputs(model: Any, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random inputs of the kind the model reads: text, images or sound features."""
    generator = torch.Generator().manual_seed(0)
    main = getattr(model, "main_input_name", "input_ids")
    config = model.config
    if main == "pixel_values":
        size = (
            config.image_size
            if isinstance(config.image_size, list | tuple)
            else (config.image_size, config.image_size)
        )
        return {"pixel_values": torch.randn(batch, config.num_channels, *size, generator=generator)}
    if main == "input_features":
        return {
            "input_features": torch.randn(
                batch, config.num_mel_bins, 2 * config.max_source_positions, generator=generator
            ),
            "decoder_input_ids": torch.randint(
                3, config.vocab_size, (batch, length), generator=generator
            ),
        }
    words = int(model.get_input_embeddings().weight.shape[0])
    places = getattr(config, "max_position_embeddings", None)
    if isinstance(places, int) and length > places:
        raise DeadheadError(
            f"length {length} is more than the {places} positions this model has.",
            f"use --length {places - 2} or less",
        )
    batch_of = {"input_ids": torch.randint(3, words, (batch, length), generator=generator)}
    batch_of["attention_mask"] = torch.ones_like(batch_of["input_ids"])
    if getattr(config, "is_encoder_decoder", False):
        batch_of["decoder_input_ids"] = torch.randint(
            3, words, (batch, length), generator=generator
        )
    return batch_of


@torch.no_grad()
def _flops(model: Any, batch: dict[str, torch.Tensor]) -> int:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # the counter does not see into fused attention
    with (
        sdpa_kernel(SDPBackend.MATH),
        onednn(is_half(model)),
        FlopCounterMode(display=False) as counter,
    ):
        model(**batch)
    return int(counter.get_total_flops())


@torch.no_grad()
def _latency(
    what: str,
    pair: list[Any],
    batch: list[dict[str, torch.Tensor]],
    repeats: int,
    place: torch.device,
) -> dict[str, Any]:
    times: list[list[float]] = [[], []]
    for turn in range(repeats + 2):
        for i in (0, 1):
            with onednn(
                is_half(pair[i])
            ):  # else a model of half precision may change what computes the other one
                _wait(place)
                start = time.perf_counter()
                pair[i](**batch[i])
                _wait(place)
                took = time.perf_counter() - start
            if turn >= 2:  # two rounds to warm up
                times[i].append(took)
    spread = [_middle_half(t) for t in times]
    ratios = [a / b for a, b in zip(*times, strict=True)]
    row = _row(what, [statistics.median(t) for t in times])
    return {**row, "ratio": statistics.median(ratios), "spread": spread}


def _middle_half(values: list[float]) -> float:
    if len(values) < 4:
        return max(values) - min(values)
    quarters = statistics.quantiles(values, n=4)
    return quarters[2] - quarters[0]


def _wait(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def _disk(name: str) -> int | None:
    folder = Path(name)
    return sum(f.stat().st_size for f in folder.glob("*.safetensors")) if folder.is_dir() else None


def _peak(
    name: str,
    batch: int,
    length: int,
    place: torch.device,
    auto: str | None = None,
    dtype: str = AS_SAVED,
) -> int | None:
    words = (name, str(batch), str(length), str(place), auto or "", dtype)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=False
    )
    return int(done.stdout.split()[-1]) if done.returncode == 0 else None


def most_held(place: torch.device) -> int:
    """The most bytes that this process has held at any time."""
    if place.type == "cuda":
        return torch.cuda.max_memory_allocated(place)
    status = Path("/proc/self/status")
    if (
        status.exists()
    ):  # to getrusage, on Linux, what the process that started this one held counts as well
        return next(
            int(line.split()[1]) * 1024
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM:")
        )
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _device_name(place: torch.device) -> str:
    import platform

    return (
        torch.cuda.get_device_name(place) if place.type == "cuda" else f"{platform.machine()} CPU"
    )
