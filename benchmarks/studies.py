"""The cost of the study engine: time per trial that does nothing, and reading very many records.

    python benchmarks/studies.py [--trials 1000] [--many 3000] [--json results.json]
    python benchmarks/studies.py --against OTHER/src [--many 3000] [--json results.json]

Goals: under 5 ms of engine time per trial, flat from 100 to 3,000 records, about as many as the
largest recipe of a paper has; status, frame and the report of that many in under 3 s each, with a
page under 8 MB; the report of searches with all controls (two splits, search tables and claims)
in under 8 s. Reading is timed as the best of several runs, since other work of the machine can
only add to it. For commands, the processor time is measured too.

With --against, two source trees are compared in one run: `deadhead report` of the same studies,
alternating between the trees. The ratio of the smallest processor times says how much slower this
tree is than the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import Any

from machine import loaded_cores, versions

import deadhead
from deadhead.report.page.content import content
from deadhead.results.frame import frame
from deadhead.studies import load, run, status
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial, digest

PACKAGES = ("deadhead", "numpy", "pandas")
RUNS = 5  # for everything that reads records
NO_GOAL = ("run again", "processor")
GOALS = {"ms per trial": 5.0, "MB": 8.0, "s": 3.0}  # the most, by unit
SEARCH_GOAL = 8.0  # s: each record has twice the numbers, and there are searches and claims
LANGUAGES = ("en", "de", "es", "zh", "hi", "ur", "ar", "tr", "sw")
METRICS = ("micro_f1", "macro_f1", "chunk_f1")
RECIPE = """\
steps: [prune, finetune, evaluate]
fixed: {{model: nobody/nothing, source: en, task: pos, targets: [{languages}]}}
axes: {{remove: {{random: 1..20}}, seed: 1..{seeds}}}
"""
SEARCH = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {{task: pos, targets: [{languages}], splits: [dev, test], rank: {{method: gradient}}}}
axes:
  model: [a/mbert, another/mbert, an/xlm-r, another/xlm-r]
  source: [en, de, es, zh, hi, ar]
  seed: 1..{seeds}
search: {{lowest: 1..12, controls: [seeds, random, highest]}}
tables:
  - title: Unpruned and best of 12
    kind: search
    rows: [source, target]
    columns: [model, setting]
  - title: Best of 12 of each arm
    kind: search
    rows: arm
    columns: source
    where: {{setting: cross-lingual}}
figures:
  - title: Gain by heads removed
    kind: curve
    x: k
    panels: source
    value: gain
    where: {{setting: cross-lingual}}
claims: [L-seeds, L-random, L-highest, L-count, C-count-POS, C-mean-POS, C-max, C-rand, C-heads-POS,
  C-rank]
"""
TRIALS_PER_SEED = 4 * 6 * (1 + 4 * 12)  # in SEARCH
HEADS = tuple(f"encoder.{i // 12}.{i % 12}" for i in range(144))


def work(trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]) -> Record:
    """A trial that costs nothing and leaves a record of the usual size."""
    value = int(digest(trial.content)[:8], 16) / 2**32
    epoch = {"step": 1, "loss": value, "micro_f1": value}
    return Record(
        trial=trial,
        state="done",
        removed=HEADS[:72],
        metrics={f"{lang}/test/{name}": value for lang in LANGUAGES for name in METRICS},
        epochs=tuple({**epoch, "number": i} for i in range(1, 11)),
        cost={"finetune s": 1.0, "evaluate s": 0.5},
    )


def search(
    trial: Trial, folder: Path, keep: Collection[str], tell: Callable[[str], None]
) -> Record:
    """A trial of a search, with its own score in each language and split, and its ranking."""
    random = Random(trial.id)
    sets = [f"{lang}/{split}" for lang in LANGUAGES for split in ("dev", "test")]
    number = next(iter((trial.get("remove") or {"": 0}).values()))
    removed = tuple(random.sample(HEADS, number))
    scores = {head: random.random() for head in HEADS}
    ranking = {"method": "gradient", "languages": [trial.get("source")], "scores": scores}
    cost = {"finetune s": 1.0, "evaluate s": 0.5, "parameters": 1000, "heads before": len(HEADS)}
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics={f"{s}/{name}": random.gauss(0.7, 0.02) for s in sets for name in METRICS},
        epochs=tuple({"step": 1, "number": i, "loss": 1 / i} for i in range(1, 11)),
        cost=cost,
        details={"ranking": ranking} if "rank" in trial.content else {},
    )


def recipe(folder: Path, trials: int) -> Any:
    return load_text(folder / "bench.yaml", RECIPE, max(1, trials // 20))


def load_text(file: Path, text: str, seeds: int) -> Any:
    file.write_text(text.format(languages=", ".join(LANGUAGES), seeds=seeds))
    return load(file)


def search_study(folder: Path, many: int) -> tuple[Path, int]:
    """A study that is all searches, with claims, and the number of its records."""
    chosen = load_text(folder / "searches.yaml", SEARCH, max(1, many // TRIALS_PER_SEED))
    run(chosen, folder / "searches", executor="serial", work=f"{__name__}:search")
    return folder / "searches", len(chosen.trials)


def timed(call: Callable[[], Any], runs: int = 1) -> float:
    """Seconds; the fewest of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def per_trial(folder: Path, trials: int, executor: str, workers: int = 1) -> float:
    """Milliseconds per trial of a run from start to end: starting, running, writing, counting."""
    chosen, out = recipe(folder, trials), folder / f"{executor}-{trials}"
    module = f"{__name__}:work" if executor == "serial" else "studies:work"
    seconds = timed(lambda: run(chosen, out, executor=executor, workers=workers, work=module))
    return 1000 * seconds / len(chosen.trials)


def run_command(command: str, study: Path, source: Path | None = None) -> tuple[float, float]:
    """Run a command in a new process: its seconds, and its seconds of processor time.

    source: the source tree to run; by default that of this process.
    """
    environ = {**os.environ, **({} if source is None else {"PYTHONPATH": str(source)})}
    line = [sys.executable, "-m", "deadhead", command, str(study)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = timed(lambda: subprocess.run(line, check=True, capture_output=True, env=environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path, trials: int, many: int) -> dict[str, float]:
    """All numbers of a study of small records."""
    numbers = {
        f"serial, {size} trials, ms per trial": per_trial(folder, size, "serial")
        for size in sorted({100, trials, many})
    }
    name = f"local, 2 workers, {trials} trials, ms per trial"
    numbers[name] = per_trial(folder, trials, "local", 2)
    study, chosen = folder / f"serial-{many}", recipe(folder, many)
    again = timed(lambda: run(chosen, study, executor="serial", work=f"{__name__}:work"))
    numbers[f"run again, {many} records, s"] = again
    longer, before = recipe(folder, many + 200), time.time()
    run(longer, study, executor="serial", work=f"{__name__}:work")
    times = sorted(file.stat().st_mtime for file in (study / "records").iterdir())[-200:]
    assert times[0] > before
    seconds = (times[-1] - times[0]) / (len(times) - 1)
    numbers[f"200 more after {many}, ms per trial"] = 1000 * seconds
    numbers[f"status, {many} records, s"] = timed(lambda: status(study), RUNS)
    numbers[f"frame, {many} records, s"] = timed(lambda: frame(study), RUNS)
    numbers |= measure_reading(study, f"{many} records", "status")
    return numbers


def measure_reading(study: Path, label: str, command: str) -> dict[str, float]:
    """The report of a study, and one more command that reads it."""
    numbers = {f"content of the report, {label}, s": timed(lambda: content(study), RUNS)}
    for name in (command, "report"):
        pairs = [run_command(name, study) for _ in range(RUNS)]
        numbers[f"deadhead {name}, {label}, s"] = min(seconds for seconds, _ in pairs)
        numbers[f"processor of deadhead {name}, {label}, s"] = min(cpu for _, cpu in pairs)
    size = (study / "report.html").stat().st_size / 1e6
    return numbers | {f"page of the report, {label}, MB": size}


def compare(folder: Path, many: int, other: Path) -> list[dict[str, Any]]:
    """`deadhead report` of both kinds of study with two source trees, in turns."""
    chosen = recipe(folder, many)
    run(chosen, folder / "plain", executor="serial", work=f"{__name__}:work")
    searches, size = search_study(folder, many)
    own = Path(deadhead.__file__).parents[1]
    rows = []
    for label, study, records in (
        ("random removals", folder / "plain", len(chosen.trials)),
        ("searches", searches, size),
    ):
        times: dict[Path, list[float]] = {own: [], other: []}
        for i in range(RUNS):
            for source in (own, other) if i % 2 else (other, own):
                times[source].append(run_command("report", study, source)[1])
        here, there = min(times[own]), min(times[other])
        what = f"deadhead report, {label}, {records} records: processor time here / there"
        goal = {"value": round(here / there, 3), "goal": "<= 1.05", "reached": here / there <= 1.05}
        rows.append({"what": what, **goal, "here s": round(here, 2), "there s": round(there, 2)})
    return rows


def row(what: str, value: float) -> dict[str, Any]:
    """A number beside its goal."""
    unit = what.rpartition(", ")[2]
    most = SEARCH_GOAL if ", searches, " in what and unit == "s" else GOALS[unit]
    if what.startswith(NO_GOAL):
        return {"what": what, "value": round(value, 3), "goal": "", "reached": None}
    return {"what": what, "value": round(value, 3), "goal": f"< {most:g}", "reached": value < most}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--many", type=int, default=3_000, help="records of a large study")
    parser.add_argument("--against", type=Path, help="another source tree (its folder src)")
    parser.add_argument("--json", type=Path, help="write the numbers, the machine and the date")
    args = parser.parse_args()
    import pandas  # noqa: F401  # its import is not ours to time

    machine = f"{loaded_cores()}; {versions(*PACKAGES)}"
    facts: dict[str, Any] = {"machine": machine, "date": time.strftime("%Y-%m-%d")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.against is not None:
            facts["rows"] = compare(folder, args.many, args.against.resolve())
        else:
            numbers = measure(folder, args.trials, args.many)
            study, size = search_study(folder, args.many)
            numbers |= measure_reading(study, f"searches, {size} records", "claims")
            facts["rows"] = [row(what, value) for what, value in numbers.items()]
    print(facts["machine"])
    for line in facts["rows"]:
        times = f"  ({line['here s']} s, {line['there s']} s)" if "here s" in line else ""
        print(f"  {line['what']:78} {line['value']:8.2f}  {line['goal']}{times}")
    if args.json:
        args.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
