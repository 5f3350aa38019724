"""Put deadhead through faults and count what is lost: kills, damage, strange inputs, full disks.

    python tools/attack.py [--minutes 15] [--only kills,fuzz] [--share 0.1] [--out table.md]

Run it in the repository. It needs the tests beside it, and writes only below a temporary folder
and --out. Each attack has a number of tries; --share takes a part of them, and an attack that uses
up its share of the minutes ends early and says so. The last column counts what must stay 0: records
that differ from those of an undisturbed run, other records that a reader no longer shows, and
errors that are not one clear message (DeadheadError). Linux only.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "studies"), str(ROOT / "tests" / "heads")]


@dataclass
class Count:
    """What one attack came to."""

    name: str
    planned: int  # tries
    folder: Path
    end: float  # time.monotonic() at which to stop
    tries: int = 0
    survived: int = 0
    problems: list[str] = field(default_factory=list)  # one for each try that lost something
    note: str = ""

    def more(self) -> bool:
        """Whether there are tries left, and time for them."""
        if self.tries < self.planned and time.monotonic() > self.end:
            self.note = self.note or f"stopped by the clock, {self.planned} tries were planned"
        return self.tries < self.planned and time.monotonic() <= self.end

    def put(self, problem: str = "") -> None:
        self.tries += 1
        if problem:
            self.problems.append(problem)
        else:
            self.survived += 1

    @property
    def row(self) -> str:
        return (
            f"| {self.name}{f' ({self.note})' if self.note else ''} | {self.tries:,} | "
            f"{self.survived:,} | {len(self.problems):,} |"
        )


def attacks() -> dict[str, tuple[str, int, float, Callable[[Count], None]]]:
    """Name -> words for the table, tries, share of the time, and the attack itself."""
    import attack_files
    import attack_inputs
    import attack_models
    import attack_processes

    return {
        "kills": ("kill -9 of a training at a random moment", 200, 0.4, attack_processes.kills),
        "readers": ("damaged study, read by each of 5 readers", 600, 0.1, attack_files.readers),
        "fuzz": (
            "mutated recipe, task file, manifest, data file, ranking or config",
            5000,
            0.2,
            attack_inputs.fuzz,
        ),
        "edits": (
            "number edited in a record, read by each of 4 readers",
            200,
            0.05,
            attack_files.edits,
        ),
        "models": (
            "hostile model folder, read by each of 5 readers",
            5 * len(attack_models.damages()),
            0.2,
            attack_models.folders,
        ),
        "writers": (
            "kill -9 of the writer of a model or an export",
            200,
            0.1,
            attack_models.killed_writers,
        ),
        "together": ("six runs at once on one folder", 10, 0.05, attack_processes.together),
        "disk": ("disk that runs full, resumed with room", 10, 0.05, attack_files.full_disk),
        "power": (
            "power cut: a file cut short or never synced, resumed",
            200,
            0.1,
            attack_files.power,
        ),
        "ray": ("Ray worker, raylet, head or node killed", 5, 0.1, attack_processes.on_ray),
    }


def table(counts: list[Count], minutes: float) -> str:
    """The counts as Markdown, with the day and the kind of machine."""
    machine = f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}"
    lines = [
        f"Made by `python tools/attack.py` on {date.today().isoformat()}: {machine}, "
        f"{minutes:.0f} minutes.",
        "",
    ]
    lines += [
        "| attack | tries | survived | lost |",
        "|---|---:|---:|---:|",
        *(one.row for one in counts),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15.0, help="of all attacks together")
    parser.add_argument("--only", default="", help="names of attacks, with commas between them")
    parser.add_argument("--share", type=float, default=1.0, help="of the tries of each attack")
    parser.add_argument("--out", type=Path, help="the table as a Markdown file")
    options = parser.parse_args()
    known = attacks()
    chosen = options.only.split(",") if options.only else list(known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"unknown attack {unknown[0]!r}; known are {', '.join(known)}")
    start, counts = time.monotonic(), []
    whole = sum(known[name][2] for name in chosen)
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    try:
        for name in chosen:
            words, tries, part, attack = known[name]
            began = time.monotonic()
            count = Count(
                words,
                max(1, round(options.share * tries)),
                home / name,
                began + 60 * options.minutes * part / whole,
            )
            count.folder.mkdir()
            attack(count)
            counts.append(count)
            print(f"{count.row}  {time.monotonic() - began:.0f} s", flush=True)
            for problem in count.problems[:5]:
                print(f"    {problem}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    text = table(counts, (time.monotonic() - start) / 60)
    print(f"\n{text}")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return int(any(count.problems for count in counts))


if __name__ == "__main__":
    sys.exit(main())
