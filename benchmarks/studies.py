"""What the study engine itself costs: time per trial that does nothing, and reading very many records.

    python benchmarks/studies.py [--trials 2000] [--many 20000] [--json]

Goals: under 5 ms of engine time per trial, flat from 100 to 20,000 records; status, frame and the
content of a report of 20,000 records in under 3 s, the page under 8 MB.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from deadhead.report.content import content
from deadhead.studies import frame, load, run, status
from deadhead.studies.records import Record
from deadhead.studies.trial import Trial, digest

LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {{model: nobody/nothing, source: en, task: pos, targets: [{languages}]}}
axes: {{remove: {{random: 1..20}}, seed: 1..{seeds}}}
"""


def work(trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]) -> Record:
    """A trial that costs nothing and leaves a record of the usual size."""
    value = int(digest(trial.content)[:8], 16) / 2**32
    metrics = {f"{lang}/test/{name}": value for lang in LANGUAGES for name in ("micro_f1", "macro_f1", "chunk_f1")}
    epochs = tuple({"step": 1, "number": i, "loss": value / i, "micro_f1": value} for i in range(1, 11))
    removed = tuple(f"encoder.{i // 12}.{i % 12}" for i in range(72))
    return Record(trial, "done", removed, metrics, epochs, {"finetune s": 1.0, "evaluate s": 0.5})


def recipe(folder: Path, trials: int) -> Any:
    file = folder / "bench.yaml"
    file.write_text(RECIPE.format(languages=", ".join(LANGUAGES), seeds=max(1, trials // 20)))
    return load(file)


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def per_trial(folder: Path, trials: int, executor: str, workers: int = 1) -> float:
    """Milliseconds per trial of a run from start to end: starting, running, writing, counting."""
    chosen = recipe(folder, trials)
    module = "__main__:work" if executor == "serial" else "studies:work"
    seconds = timed(lambda: run(chosen, folder / f"{executor}-{trials}", executor=executor, workers=workers, work=module))
    return 1000 * seconds / len(chosen.trials)


def _typed(command: str, study: Path) -> None:
    """The command as somebody types it: Python started, modules loaded, the page written."""
    subprocess.run([sys.executable, "-m", "deadhead", command, str(study)], check=True, capture_output=True)


def measure(trials: int, many: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in sorted({100, trials, many}):
            found[f"serial, {size} trials, ms per trial"] = per_trial(folder, size, "serial")
        found[f"local, 2 workers, {trials} trials, ms per trial"] = per_trial(folder, trials, "local", 2)
        study = folder / f"serial-{many}"
        chosen = recipe(folder, many)
        found[f"run again, {many} records, s"] = timed(lambda: run(chosen, study, executor="serial", work="__main__:work"))
        longer = recipe(folder, many + 200)
        before = time.time()
        run(longer, study, executor="serial", work="__main__:work")
        times = sorted(file.stat().st_mtime for file in (study / "records").iterdir())[-200:]
        assert times[0] > before
        found[f"200 more after {many}, ms per trial"] = 1000 * (times[-1] - times[0]) / (len(times) - 1)
        found[f"status, {many} records, s"] = timed(lambda: status(study))
        found[f"frame, {many} records, s"] = timed(lambda: frame(study))
        found[f"content of the report, {many} records, s"] = timed(lambda: content(study))
        found[f"content of the report, {many} records, MB"] = len(json.dumps(content(study))) / 1e6
        for command in ("status", "report"):
            found[f"deadhead {command}, {many} records, s"] = timed(lambda command=command: _typed(command, study))  # type: ignore[misc]
        (study / "index.jsonl").unlink()
        found[f"status without an index, {many} records, s"] = timed(lambda: status(study))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--many", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    import pandas  # noqa: F401  # its import is not ours to time

    found = measure(chosen.trials, chosen.many)
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    if chosen.json:
        print(json.dumps({"machine": machine, **{name: round(value, 3) for name, value in found.items()}}, indent=1))
        return
    print(machine)
    for name, value in found.items():
        print(f"  {name:44} {value:8.2f}")


if __name__ == "__main__":
    main()
