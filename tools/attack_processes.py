"""Attacks on processes: trainings killed, several runs at once, parts of a Ray cluster lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as Xml
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from small_study import WORK, stable_records

from attack import ROOT, Count
from deadhead.studies import load, run
from deadhead.studies.recipe.load import Recipe
from deadhead.studies.store.folder import StudyTaken

LONGEST = 1.6  # seconds until a training is killed
WORLD = [
    "data.examples=32",
    "targets=[de]",
    "finetune.scored=none",
    "finetune.epochs=2",
    "rank={examples: 16}",
]
WORLD += ["remove=[none, {lowest: 2}, {random: 50}]", "seed=[0, 1, 2, 3, 4, 5]", "draw=0"]
SEARCH = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: nobody/nothing, source: en, task: pos, targets: [de, zh]}
axes: {seed: [0, 1]}
search: {lowest: 1..4, controls: [seeds, random, highest]}
"""


def forked(work: Callable[[], Any], says: Path) -> int:
    """Do something in a copy of this process; its id. It exits with 0, 3 (taken) or 1."""
    child = os.fork()
    if child:
        return child
    handle = os.open(says, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    try:
        work()
        os._exit(0)
    except StudyTaken:
        os._exit(3)
    except BaseException as problem:  # the parent reads the exit status, people the file
        print(repr(problem), flush=True)
        os._exit(1)


def compared(folder: Path, expected: dict[str, Any]) -> str:
    """How the records of a study differ from those that were expected; empty if they do not."""
    now = stable_records(folder)
    different = [name for name in expected if now.get(name) != expected[name]]
    if not different and len(now) == len(expected):
        return ""
    fields = {
        field
        for name in different
        for field in expected[name]
        if now.get(name, {}).get(field) != expected[name][field]
    }
    example = next(
        (
            (str(now.get(name, {}).get(field)), name)
            for name in different
            for field in sorted(fields)
        ),
        ("", ""),
    )
    return (
        f"{len(different)} of {len(expected)} records differ in {', '.join(sorted(fields))}; "
        f"there are {len(now)}; {example!s:.2000}"
    )


def kills(count: Count) -> None:
    """Train the small world in a process, kill it, resume in another, until all is done; again."""
    recipe, rng = load("smoke", WORLD), random.Random(0)
    run(recipe, count.folder / "undisturbed", executor="serial")
    expected = stable_records(count.folder / "undisturbed")
    studies = 0
    while count.more():
        studies += 1
        folder, hits = count.folder / str(studies), 0
        ended = False
        while not ended:
            child = forked(partial(run, recipe, folder, executor="serial"), count.folder / "said")
            if count.tries + hits < count.planned:
                time.sleep(rng.uniform(0, LONGEST))
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            ended = os.WIFEXITED(status)
            hits += not ended
        problem = compared(folder, expected) or (
            "" if os.WEXITSTATUS(status) == 0 else f"resuming failed: exit status {status}"
        )
        for nth in range(hits):
            count.put(problem if nth == 0 else "")
    count.note = count.note or f"{studies} studies of {len(recipe.trials)} trials"


def together(count: Count) -> None:
    """Six runs on one folder: one works, the others are refused at once, all trials run once."""
    file = count.folder / "search.yaml"
    file.write_text(SEARCH)
    recipe = load(file)
    run(recipe, count.folder / "undisturbed", executor="serial", work=WORK)
    expected = stable_records(count.folder / "undisturbed")
    while count.more():
        folder = count.folder / str(count.tries)
        work = partial(run, recipe, folder, executor="serial", work=WORK)
        children = [forked(work, count.folder / "said") for _ in range(6)]
        statuses = [os.WEXITSTATUS(os.waitpid(child, 0)[1]) for child in children]
        if 0 not in statuses or not {*statuses} <= {0, 3}:
            count.put(f"exit statuses {statuses}")
        else:
            count.put(compared(folder, expected))


def on_ray(count: Count) -> None:
    """The tests of the cluster, which kill a part of it and compare the records; needs ray."""
    result = count.folder / "ray.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={result}",
        "tests/studies/test_ray.py",
    ]
    names = "a_node_dies or of_trials_die or idle_process or cluster_that_is_gone"
    left = max(1.0, count.end - time.monotonic())
    try:
        subprocess.run(
            [*command, "-k", names], cwd=ROOT, capture_output=True, timeout=max(300.0, left)
        )
    except subprocess.TimeoutExpired:
        count.note = "stopped by the clock"
        return
    cases = list(Xml.parse(result).iter("testcase")) if result.exists() else []
    if not cases or all(case.find("skipped") is not None for case in cases):
        count.note = "skipped: ray is not installed"
    for case in cases[: None if count.planned >= 5 else count.planned]:
        if case.find("skipped") is None:
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            count.put(
                "" if wrong is None else f"{case.get('name')}: {wrong.get('message', '')[:200]}"
            )


def small(folder: Path) -> Recipe:
    """The recipe of a search that costs nothing."""
    file = folder / "small.yaml"
    file.write_text(SEARCH)
    return load(file, ["seed=0", "search.lowest=1..2"])
