"""What removing heads saves: size, arithmetic, disk, time and memory, beside another model.

Both models are timed in turns in one run, so that a busy machine slows both. Times are medians
with their interquartile range; their ratio is the median of the ratios of the rounds. Peak memory
is that of a fresh process for each model, which loads it and runs one batch: on a CPU everything
the process used, Python and torch included, on a GPU what was allocated there.
"""

import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from deadhead.display.progress import stage
from deadhead.embedding import Embedder, embedder_of
from deadhead.errors import DeadheadError
from deadhead.forward import forward, token_limit
from deadhead.heads.discover import discover
from deadhead.heads.load import load, skeleton
from deadhead.heads.model_class import AS_SAVED
from deadhead.numerics import device_named, is_half, onednn
from deadhead.shrinking.latency import in_turns

EXAMPLES = {"batch": "--batch-sizes 1,8", "length": "--lengths 32,128", "repeats": "--repeats 10"}
CHILD = """
import sys, torch
from deadhead.heads import load
from deadhead.saved.bench import inputs, peak_bytes
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
    _check_numbers(batch=batches, length=lengths, repeats=[repeats])
    place = device_named(device)
    names = (str(model), str(against))
    shapes = [(b, n) for b in batches for n in lengths]
    for name in names:  # or raise an error before any weights are read
        bare = skeleton(name, auto=auto, dtype=dtype)
        _embedder(bare)
        for b, n in shapes:
            inputs(bare, b, n)
    pair = [load(name, auto=auto, dtype=dtype).eval().to(place) for name in names]
    rows = [
        _row("heads", [len(discover(m)) for m in pair]),
        _row("parameters", [sum(p.numel() for p in m.parameters()) for m in pair]),
        _row("disk bytes", [disk_bytes(name) for name in names]),
    ]
    for b, n in shapes:
        stage(f"timing {b} x {n}")
        feeds = [inputs(m, b, n) for m in pair]
        rows.append(_row(f"FLOPs {b} x {n}", list(map(_flops, pair, feeds))))
        rows.append(_seconds(f"seconds {b} x {n}", pair, feeds, repeats))
    stage("measuring memory")
    how = (str(place), auto or "", dtype)
    peaks = [_peak_of_process(name, *shapes[-1], how) for name in names]
    rows.append(_row("peak memory bytes {} x {}".format(*shapes[-1]), peaks))
    machine = {"device": _device_name(place), "threads": torch.get_num_threads()}
    return {"model": names[0], "against": names[1], **machine, "rows": rows}


def _check_numbers(**numbers: Sequence[int]) -> None:
    """Raise an error unless all numbers of each name are at least 1, and there is one."""
    for name, values in numbers.items():
        if not values or min(values) < 1:
            got = ", ".join(map(str, values))
            message = f"`{name}` expects numbers of at least 1, got {got}."
            raise DeadheadError(message, f"for instance {EXAMPLES[name]}")


def _row(what: str, values: Sequence[Any]) -> dict[str, Any]:
    """A number of both models and their ratio, if both are known."""
    model, against = values
    ratio = model / against if model is not None and against else None
    return {"what": what, "model": model, "against": against, "ratio": ratio}


def inputs(model: Any, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random inputs of the kind the model reads, on its device: text, images or sound features."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randint, 3, size=(batch, length), generator=generator)
    config, main = model.config, getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values":
        side = config.image_size
        size = side if isinstance(side, list | tuple) else (side, side)
        pixels = torch.randn(batch, config.num_channels, *size, generator=generator)
        feed = {"pixel_values": pixels}
    elif main == "input_features":
        shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
        feed = {"input_features": torch.randn(shape, generator=generator)}
        feed["decoder_input_ids"] = draw(config.vocab_size)
    else:
        feed = _tokens(model, length, draw)
    return {name: tensor.to(next(model.parameters()).device) for name, tensor in feed.items()}


def _tokens(
    model: Any, length: int, draw: Callable[[int], torch.Tensor]
) -> dict[str, torch.Tensor]:
    longest = token_limit(model)
    if longest is not None and length > longest:
        raise DeadheadError(
            f"`length` expects at most the {longest} positions of this model, got {length}.",
            f"use --length {longest} or less",
        )
    words = int(model.get_input_embeddings().weight.shape[0])
    feed = {"input_ids": draw(words)}
    feed["attention_mask"] = torch.ones_like(feed["input_ids"])
    if getattr(model.config, "is_encoder_decoder", False):
        feed["decoder_input_ids"] = draw(words)
    return feed


@torch.no_grad()
def _flops(model: Any, feed: Mapping[str, Any]) -> int:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    # the counter does not see into fused attention
    with sdpa_kernel(SDPBackend.MATH), onednn(is_half(model)), counter:
        forward(model, feed)
    return int(counter.get_total_flops())


@torch.no_grad()
def _seconds(
    what: str, models: Sequence[Any], feeds: Sequence[Mapping[str, Any]], repeats: int
) -> dict[str, Any]:
    def run(model: Any, embedder: Embedder | None, feed: Mapping[str, Any]) -> None:
        with onednn(is_half(model)):  # a half-precision model may change the kernels of both
            outputs = forward(model, feed)
            if embedder is not None:
                embedder(outputs, feed)

    embedders = map(_embedder, models)
    calls = [partial(run, *parts) for parts in zip(models, embedders, feeds, strict=True)]
    times = in_turns(calls, models[0].device, repeats)
    return {
        **_row(what, [statistics.median(seconds) for seconds in times]),
        "ratio": statistics.median(a / b for a, b in zip(*times, strict=True)),
        "spread": [_interquartile_range(seconds) for seconds in times],
    }


def _embedder(model: Any) -> Embedder | None:
    """What a sentence encoder runs behind its transformer."""
    return embedder_of(model) if model.base_model is model else None


def _interquartile_range(values: list[float]) -> float:
    if len(values) < 4:
        return max(values) - min(values)
    quarters = statistics.quantiles(values, n=4)
    return quarters[2] - quarters[0]


def disk_bytes(name: str) -> int | None:
    """The size of the weights in a folder, or of a GGUF file; None for a name on the hub."""
    path = Path(name)
    if path.is_file():
        return path.stat().st_size
    return sum(f.stat().st_size for f in path.glob("*.safetensors")) if path.is_dir() else None


def _peak_of_process(name: str, batch: int, length: int, how: tuple[str, ...]) -> int | None:
    """The peak memory of a process that loads the model and runs one batch; None if it failed."""
    command = [sys.executable, "-c", CHILD, name, str(batch), str(length), *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else None


def peak_bytes(device: torch.device) -> int:
    """The most memory that this process has used at any time, on this device."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage counts the memory of the parent process too
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _device_name(device: torch.device) -> str:
    on_gpu = device.type == "cuda"
    return torch.cuda.get_device_name(device) if on_gpu else f"{platform.machine()} CPU"
