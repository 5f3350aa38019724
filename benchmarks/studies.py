"""What the study engine itself costs: time per trial that does nothing, and reading very many records.

    python benchmarks/studies.py [--trials 2000] [--many 20000] [--json results.json]

Goals: under 5 ms of engine time per trial, flat from 100 to 20,000 records; status, frame and the report of
20,000 records, the last also as a command that is typed, in under 3 s, the page under 8 MB. The same page of
408 searches with every control (19,992 records, scored on two splits, with search tables and claims to judge) in
under 8 s. What reads is the best of several runs, since whatever else the machine does can only add to it;
commands also tell the seconds of processor they took.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any

from deadhead.report.page.content import content
from deadhead.results.frame import frame
from deadhead.studies import load, run, status
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial, digest

RUNS = 5  # of what reads
NO_GOAL = ("run again", "processor", "status without an index")
GOALS = {"ms per trial": 5.0, "MB": 8.0, "s": 3.0}  # by what a number is in: it is to be below
OF_SEARCHES = (
    8.0  # s, in place of 3: twice the numbers in each record, searches to tell, claims to judge
)
LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {{model: nobody/nothing, source: en, task: pos, targets: [{languages}]}}
axes: {{remove: {{random: 1..20}}, seed: 1..{seeds}}}
"""
SEARCH = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {{task: pos, targets: [{languages}], splits: [dev, test], rank: {{method: gradient}}}}
axes: {{model: [a/mbert, another/mbert, an/xlm-r, another/xlm-r], source: [en, de, es, zh, hi, ar], seed: 1..{seeds}}}
search: {{lowest: 1..12, controls: [seeds, random, highest]}}
tables:
  - {{title: Unpruned and best of 12, kind: search, rows: [source, target], columns: [model, setting]}}
  - {{title: Best of 12 of each arm, kind: search, rows: arm, columns: source, where: {{setting: cross-lingual}}}}
figures:
  - {{title: Gain by heads removed, kind: curve, x: k, panels: source, value: gain, where: {{setting: cross-lingual}}}}
claims: [L-seeds, L-random, L-highest, L-count, C-count-POS, C-mean-POS, C-max, C-rand, C-heads-POS, C-rank]
"""
TRIALS = 4 * 6 * (1 + 4 * 12)  # of SEARCH for each seed
HEADS = tuple(f"encoder.{i // 12}.{i % 12}" for i in range(144))


def work(trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]) -> Record:
    """A trial that costs nothing and leaves a record of the usual size."""
    value = int(digest(trial.content)[:8], 16) / 2**32
    metrics = {
        f"{lang}/test/{name}": value
        for lang in LANGUAGES
        for name in ("micro_f1", "macro_f1", "chunk_f1")
    }
    epochs = tuple(
        {"step": 1, "number": i, "loss": value / i, "micro_f1": value} for i in range(1, 11)
    )
    return Record(
        trial, "done", HEADS[:72], metrics, epochs, {"finetune s": 1.0, "evaluate s": 0.5}
    )


def searched(
    trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]
) -> Record:
    """A trial of a search, with a score of its own in each language and split, and its ranking where it has one."""
    drawn = Random(trial.id)
    at = [f"{lang}/{split}" for lang in LANGUAGES for split in ("dev", "test")]
    metrics = {
        f"{one}/{name}": drawn.gauss(0.7, 0.02)
        for one in at
        for name in ("micro_f1", "macro_f1", "chunk_f1")
    }
    epochs = tuple({"step": 1, "number": i, "loss": 1 / i} for i in range(1, 11))
    gone = drawn.sample(HEADS, next(iter((trial.get("remove") or {"": 0}).values())))
    ranking = {
        "method": "gradient",
        "languages": [trial.get("source")],
        "scores": {head: drawn.random() for head in HEADS},
    }
    cost = {"finetune s": 1.0, "evaluate s": 0.5, "parameters": 1000, "heads before": len(HEADS)}
    return Record(
        trial,
        "done",
        tuple(gone),
        metrics,
        epochs,
        cost,
        details={"ranking": ranking} if "rank" in trial.content else {},
    )


def recipe(folder: Path, trials: int) -> Any:
    return written(folder / "bench.yaml", RECIPE, max(1, trials // 20))


def written(file: Path, text: str, seeds: int) -> Any:
    file.write_text(text.format(languages=", ".join(LANGUAGES), seeds=seeds))
    return load(file)


def timed(call: Callable[[], Any], runs: int = 1) -> float:
    """Seconds; the fewest of several runs."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def per_trial(folder: Path, trials: int, executor: str, workers: int = 1) -> float:
    """Milliseconds per trial of a run from start to end: starting, running, writing, counting."""
    chosen = recipe(folder, trials)
    module = "__main__:work" if executor == "serial" else "studies:work"
    seconds = timed(
        lambda: run(
            chosen, folder / f"{executor}-{trials}", executor=executor, workers=workers, work=module
        )
    )
    return 1000 * seconds / len(chosen.trials)


def typed(command: str, study: Path) -> tuple[float, float]:
    """The command as somebody types it: Python started, modules loaded, the page written. Seconds, and those of processor."""
    found = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = timed(
            lambda: subprocess.run(
                [sys.executable, "-m", "deadhead", command, str(study)],
                check=True,
                capture_output=True,
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append((took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(took for took, _ in found), min(used for _, used in found)


def measure(trials: int, many: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in sorted({100, trials, many}):
            found[f"serial, {size} trials, ms per trial"] = per_trial(folder, size, "serial")
        found[f"local, 2 workers, {trials} trials, ms per trial"] = per_trial(
            folder, trials, "local", 2
        )
        study = folder / f"serial-{many}"
        chosen = recipe(folder, many)
        found[f"run again, {many} records, s"] = timed(
            lambda: run(chosen, study, executor="serial", work="__main__:work")
        )
        longer = recipe(folder, many + 200)
        before = time.time()
        run(longer, study, executor="serial", work="__main__:work")
        times = sorted(file.stat().st_mtime for file in (study / "records").iterdir())[-200:]
        assert times[0] > before
        found[f"200 more after {many}, ms per trial"] = (
            1000 * (times[-1] - times[0]) / (len(times) - 1)
        )
        found[f"status, {many} records, s"] = timed(lambda: status(study), RUNS)
        found[f"frame, {many} records, s"] = timed(lambda: frame(study), RUNS)
        found |= reading(study, f"{many} records", "status")
        (study / "index.jsonl").unlink()
        found[f"status without an index, {many} records, s"] = timed(lambda: status(study))
    return found


def measure_searches(many: int) -> dict[str, float]:
    """The report of a study that is all searches, with claims."""
    with tempfile.TemporaryDirectory() as name:
        chosen = written(Path(name) / "searches.yaml", SEARCH, max(1, many // TRIALS))
        study, size = Path(name) / "study", len(chosen.trials)
        run(chosen, study, executor="serial", work="__main__:searched")
        return reading(study, f"searches, {size} records", "claims")


def reading(study: Path, what: str, command: str) -> dict[str, float]:
    """The report of a study, and one more command that reads it."""
    found = {f"content of the report, {what}, s": timed(lambda: content(study), RUNS)}
    for each in (command, "report"):
        took, used = typed(each, study)
        found |= {
            f"deadhead {each}, {what}, s": took,
            f"processor of deadhead {each}, {what}, s": used,
        }
    return found | {f"page of the report, {what}, MB": (study / "report.html").stat().st_size / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--many", type=int, default=20_000)
    parser.add_argument(
        "--json", type=Path, help="write the numbers there, with the machine and the date"
    )
    chosen = parser.parse_args()
    import pandas  # noqa: F401  # its import is not ours to time

    told = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "rows": [
            row(*one)
            for one in {
                **measure(chosen.trials, chosen.many),
                **measure_searches(chosen.many),
            }.items()
        ],
    }
    print(told["machine"])
    for one in told["rows"]:
        print(f"  {one['what']:52} {one['value']:8.2f}  {one['goal']}")
    if chosen.json:
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def row(what: str, value: float) -> dict[str, Any]:
    """A number beside its goal."""
    unit = what.rpartition(", ")[2]
    most = (
        None
        if what.startswith(NO_GOAL)
        else OF_SEARCHES
        if ", searches, " in what and unit == "s"
        else GOALS[unit]
    )
    goal, reached = ("", None) if most is None else (f"< {most:g}", value < most)
    return {"what": what, "value": round(value, 3), "goal": goal, "reached": reached}


def machine() -> str:
    """The processor, what of it was free, and the versions that count."""
    cpus = Path("/proc/cpuinfo")
    rows = cpus.read_text().splitlines() if cpus.exists() else []
    cpu = next(
        (row.split(":")[1].strip() for row in rows if row.startswith("model name")),
        platform.machine(),
    )
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("deadhead", "numpy", "pandas")
    )
    return f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before it began; Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    main()
