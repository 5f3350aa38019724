"""Kill -9 at any moment, whoever it hits, and resume: the records are those of an undisturbed
run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from small_study import WORK, run_free, stable_records

from deadhead.studies import load, run
from deadhead.studies.store.folder import is_running

KILLS = 20
PROGRAM = """\
import sys
from deadhead.studies import load, run
run(load(sys.argv[1]), sys.argv[2], workers=2, work=sys.argv[3])
"""
RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: nobody/nothing, source: en, task: pos}
axes: {seed: 0..9, targets: [[de], [zh, hi]]}
search: {lowest: 1..8, controls: [random, highest]}
"""


def start(file, folder):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environ = {**os.environ, "PYTHONPATH": path, "TRIVIAL_SECONDS": "0.001"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), str(folder), WORK],
        env=environ,
        start_new_session=True,
    )


def workers_of(pid):
    """The children of a process, out of /proc."""
    with suppress(OSError):
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []


def kill(pid):
    """1 if there was somebody to kill."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return 1
    return 0


def wait_for(process, folder, records):
    while process.poll() is None and (
        not folder.exists() or len(list((folder / "records").glob("*.json"))) < records
    ):
        time.sleep(0.002)
    assert process.returncode is None, "the study came to its end before it could be killed"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_killed_at_twenty_moments(tmp_path):
    file, folder, rng = tmp_path / "crash.yaml", tmp_path / "s", random.Random(0)
    file.write_text(RECIPE)
    recipe = load(file)
    hits, counts = 0, [0]
    while hits < KILLS:
        process = start(file, folder)
        if rng.random() < 0.1:  # while it starts
            time.sleep(rng.uniform(0, 0.3))
        else:  # in the midst of its work, after some more records
            wait_for(process, folder, counts[-1] + rng.randint(1, 12))
            if rng.random() < 0.9:
                hits += kill(
                    rng.choice(workers_of(process.pid))
                )  # a worker alone: the study continues
                wait_for(process, folder, counts[-1] + rng.randint(1, 12))
            time.sleep(rng.uniform(0, 0.003))
        victims = [process.pid, *workers_of(process.pid)]
        rng.shuffle(victims)
        hits += max([kill(pid) for pid in victims])
        process.wait()
        counts.append(len(told_now(folder)) if folder.exists() else 0)
    assert len(recipe.trials) > counts[-1] > KILLS  # the kills were in the midst of it
    while is_running(folder):  # the last workers see that they are alone
        time.sleep(0.01)
    before = told_now(folder)
    result = run(recipe, folder, workers=2, work=WORK)
    assert result.left == result.failed == 0
    assert {
        name: record for name, record in stable_records(folder).items() if name in before
    } == before  # nothing was lost or done again
    assert result.ran == len(recipe.trials) - len(before)
    run_free(recipe, tmp_path / "undisturbed")
    assert stable_records(folder) == stable_records(tmp_path / "undisturbed")
    left = [path.name for path in folder.rglob("*") if ".draft" in path.name]
    assert not left


def told_now(folder):
    """The records as they are now, each whole; drafts of killed processes may be beside them."""
    results = {}
    for path in (folder / "records").glob("*.json"):
        record = json.loads(path.read_text())
        del record["cost"], record["digest"]
        results[path.stem] = record
    return results
