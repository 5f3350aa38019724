"""Attacks on the files of a study: damaged, cut short, never synced, and a disk that runs full."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_study import WORK, stable_records
from whole_records import changed, places, whole_study

from attack import Count
from attack_processes import compared, small
from deadhead.errors import DeadheadError
from deadhead.papers.claims import check
from deadhead.report.page.content import content
from deadhead.report.page.html import html
from deadhead.results.frame import rows
from deadhead.studies import plan, run, status, stop, summaries
from deadhead.studies.execution import jobs
from deadhead.studies.recipe.load import Recipe
from deadhead.studies.store.folder import DiskFull

WRONG: tuple[Any, ...] = (
    None,
    [],
    {},
    "x",
    "",
    True,
    -1,
    0,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    [[1]],
    {"x": {"y": [None]}},
    "\ud800",
    "\0",
)


def readers(count: Count) -> None:
    """Damage a file of a study, read it in five ways: none may fail, other records are shown."""
    rng, folder = random.Random(0), count.folder / "s"
    recipe = whole_study(folder)
    records = summaries(folder)
    reads: dict[str, Callable[[], Any]] = {
        "status": lambda: status(folder),
        "plan": lambda: plan(recipe, folder),
        "report": lambda: html(content(folder)),
        "claims": lambda: check(folder),
        "frame": lambda: list(rows(folder)),
    }
    others = [folder / name for name in ("study.json", "live.json")]
    while count.more():
        file = rng.choice([*sorted((folder / "records").iterdir()), *others])
        before = file.read_bytes() if file.exists() else b"{}"
        what = damage(file, before, rng)
        for name, read in reads.items():
            count.put(
                _read(
                    folder,
                    read,
                    name,
                    what,
                    {*records} - {file.stem} if file.name != "study.json" else None,
                )
            )
        file.write_bytes(before)


def edits(count: Count) -> None:
    """Edit one number of a record, keep its digest: every reader names it and hides that number."""
    rng, folder = random.Random(0), count.folder / "s"
    whole_study(folder)
    reads: dict[str, Callable[[], tuple[str, bool]]] = {
        "status": lambda: (str(status(folder).damaged), False),
        "page": lambda: (html(content(folder)), False),
        "summaries": lambda: ("", file.stem in summaries(folder)),
        "frame": lambda: ("", any(r["id"] == file.stem and name in r for r in rows(folder))),
    }
    while count.more():
        file = rng.choice(sorted((folder / "records").iterdir()))
        before, stored = file.read_text(), json.loads(file.read_text())
        name = rng.choice(sorted(stored["metrics"]))
        edited = {**stored["metrics"], name: stored["metrics"][name] + 0.123}
        file.write_text(json.dumps({**stored, "metrics": edited}))
        for reader, read in reads.items():
            try:
                text, shows_edit = read()
                named = file.stem in text or reader in ("summaries", "frame")
                problem = "" if named and not shows_edit else "the edited record is not named"
            except Exception as failed:
                problem = repr(failed)[:150]
            count.put(f"{reader}: {problem} ({name})" if problem else "")
        file.write_text(before)


def damage(file: Path, before: bytes, rng: random.Random) -> str:
    """Change a file at random; what was done."""
    way = rng.choice(("value", "value", "value", "cut", "noise"))
    if way == "value" and file.suffix == ".json":
        stored = json.loads(before)
        path = rng.choice([*places(stored)] or [("x",)])
        value = rng.choice(WRONG)
        file.write_text(json.dumps(changed(stored, path, value)))
        return f"{file.parent.name}/{file.suffix}: {'.'.join(map(str, path))} = {str(value)[:20]}"
    if way == "cut" and before:
        file.write_bytes(before[: rng.randrange(len(before))])
        return f"{file.name} cut short"
    noise = bytearray(before or b"x")
    for _ in range(rng.randint(1, 8)):
        noise[rng.randrange(len(noise))] = rng.randrange(256)
    file.write_bytes(bytes(noise))
    return f"{file.name} with noise"


def _read(
    folder: Path, read: Callable[[], Any], name: str, what: str, others: set[str] | None
) -> str:
    try:
        read()
        if others is not None and not others <= summaries(folder).keys():
            return f"{name}: other records are not shown ({what})"
    except DeadheadError as problem:
        return (
            f"{name}: {problem.message} ({what})" if others is not None else ""
        )  # only for study.json may a reader refuse a study
    except Exception as problem:
        return f"{name}: {problem!r:.150} ({what})"
    return ""


def full_disk(count: Count) -> None:
    """Run a study on a small disk: it says when it is full, and ends as any run with more room."""
    recipe = small(count.folder)
    run(recipe, count.folder / "undisturbed", executor="serial", work=WORK)
    expected = stable_records(count.folder / "undisturbed")
    disk = count.folder / "disk"
    while count.more():
        disk.mkdir()
        size = 24 + 8 * (count.tries % 6)  # KiB
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], capture_output=True
        ).returncode:
            count.note = "skipped: no right to mount a small disk"
            return
        try:
            count.put(_filled(recipe, disk, expected))
        finally:
            subprocess.run(["umount", disk], check=True)
            disk.rmdir()


def _filled(recipe: Recipe, disk: Path, expected: dict[str, Any]) -> str:
    try:
        try:
            run(recipe, disk / "s", executor="serial", work=WORK)
        except DiskFull:
            pass
        else:
            return "the disk was large enough, which shows nothing"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        run(recipe, disk / "s", executor="serial", work=WORK)
    except Exception as problem:
        return repr(problem)[:200]
    return compared(disk / "s", expected)


def power(count: Count) -> None:
    """Stop a study in its midst, cut or drop files as a power cut does, and resume."""
    recipe, folder, rng = small(count.folder), count.folder / "s", random.Random(0)
    run(recipe, count.folder / "undisturbed", executor="serial", work=WORK)
    expected = stable_records(count.folder / "undisturbed")
    synced = _begun(recipe, folder)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    unsynced = [name for name in files if (folder / name).stat().st_ino not in synced]
    for length in ("0", "half", "one byte short"):
        for name in files:
            if count.more():
                count.put(_resumed(recipe, folder, count.folder / "copy", [name], length, expected))
    while count.more():
        some = (
            [name for name in unsynced if rng.random() < 0.5]
            if rng.random() < 0.3
            else rng.sample(files, rng.randint(2, len(files)))
        )
        count.put(
            _resumed(
                recipe,
                folder,
                count.folder / "copy",
                some,
                rng.choice(("0", "half", "one byte short", "gone")),
                expected,
            )
        )


def _begun(recipe: Recipe, folder: Path) -> set[int]:
    """Run a study until some trials are done; the inodes of all that was synced."""
    synced: set[int] = set()
    real, every = os.fsync, jobs.EVERY

    def fsync(handle: Any) -> None:
        synced.add(os.fstat(handle if isinstance(handle, int) else handle.fileno()).st_ino)
        real(handle)

    os.fsync, jobs.EVERY = fsync, 0.0
    try:
        run(
            recipe,
            folder,
            executor="serial",
            work=WORK,
            watch=lambda facts: stop(folder) if facts["done"] >= 4 else None,
        )
    finally:
        os.fsync, jobs.EVERY = real, every
    return synced


def _resumed(
    recipe: Recipe,
    folder: Path,
    copy: Path,
    names: list[Path],
    length: str,
    expected: dict[str, Any],
) -> str:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for name in names:
        if length == "gone":
            (copy / name).unlink()
        else:
            size = (copy / name).stat().st_size
            os.truncate(
                copy / name, {"0": 0, "half": size // 2, "one byte short": max(0, size - 1)}[length]
            )
    try:
        run(recipe, copy, executor="serial", work=WORK)
    except Exception as problem:
        return f"{problem!r:.200} ({length}: {', '.join(map(str, names[:3]))})"
    return compared(copy, expected)
