"""The machine and the versions that a benchmark ran with, for its results."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any


def processor() -> str:
    """The name of the processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions(*packages: str) -> str:
    names = [f"{name} {metadata.version(name)}" for name in packages]
    return ", ".join([f"Python {platform.python_version()}", *names])


def loaded_cores() -> str:
    """The processor, its cores and how busy they are."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{processor()}, {os.cpu_count()} cores{load}"


def torch_machine(device: str) -> str:
    """The device and threads that torch computes with, and the versions."""
    import torch

    name = f"{processor()}, {torch.get_num_threads()} thread(s) of {os.cpu_count()} cores"
    if device == "cuda":
        name = torch.cuda.get_device_name()
    return f"{name}; {versions('torch', 'transformers')}"


def write_rows(file: Path | None, device: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows so far and the machine, if there is a file: a stopped run keeps its rows."""
    if file is not None:
        results = {"machine": torch_machine(device), "rows": rows}
        file.write_text(json.dumps(results, indent=1) + "\n")


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows that `write_rows` wrote."""
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def rows_so_far(file: Path | None) -> list[dict[str, Any]]:
    """The rows of earlier runs; none if there is no file yet."""
    return [] if file is None or not file.exists() else read_rows(file)


@contextmanager
def alone(file: Path | None) -> Iterator[None]:
    """No other process adds to the file meanwhile."""
    if file is None:
        yield
        return
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def now(device: str) -> float:
    """Seconds: on a GPU after its work is done, with one thread the processor time of this process.

    Other work of the machine does not count in processor time.
    """
    import torch

    if device != "cpu":
        torch.cuda.synchronize()
    alone = device == "cpu" and torch.get_num_threads() == 1
    return time.process_time() if alone else time.perf_counter()
