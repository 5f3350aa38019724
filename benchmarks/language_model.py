"""The whole road of a language model by commands: look, rank, shrink, score, time, train.

    python benchmarks/language_model.py --model FOLDER --train train.txt --dev valid.txt
                                        [--windows 32] [--folder DIR] [--json FILE] [--page]

Runs each command of docs/results/language-model.md in a process of its own, and keeps what it
printed, the numbers of the page, and its seconds: those on the clock, start-up included, and those
of all processors, which do not depend on what else runs. The texts are cut to about `--windows`
windows of 256 tokens each. `--page` alone writes what `--json` has into the transcript and into
the blocks of the page that begin with a command; options have the names of today.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import loaded_cores, versions
from shrink_lm import cleaned

PAGE = Path(__file__).parents[1] / "docs/results/language-model.md"
TRANSCRIPT = PAGE.parent / "appendix" / "language-model.txt"
BORDERS, MOST_LINES = "┏┡└┌├", 16  # how lines without words begin; lines of a block of the page
DETAILS = ("heads by ", "held-out loss after", "up to ")  # lines of the transcript alone
LENGTH, CHARACTERS = 256, 4.4  # tokens of a window; characters of a token, roughly
LM = f"--task lm --data text --max-length {LENGTH}"
COMMANDS = (
    "heads smol",
    f"rank smol {LM} --split train --out ranking.json",
    f"shrink smol {LM} --remove-heads 20% --on 1x{LENGTH} --out small",
    f"evaluate smol small {LM}",
    f"bench small --against smol --batch-sizes 1,8 --lengths {LENGTH} --repeats 3",
    f"finetune small {LM} --lora 8 --epochs 1 --batch-size 8 --out tuned",
    f"evaluate small tuned {LM}",
    "heads tuned",
)
RENAMED = {" --heads ": " --remove-heads ", " --batch ": " --batch-size "}  # options since a record
CHILDREN = ("children_user", "children_system")  # times of the processes that were run
GENERATE = """
from transformers import AutoTokenizer
from deadhead import load
tokenizer = AutoTokenizer.from_pretrained("smol")
for name in ("smol", "small", "tuned"):
    inputs = tokenizer("The capital of France is", return_tensors="pt")
    tokens = load(name, dtype="float32").generate(**inputs, max_new_tokens=24, do_sample=False)
    print(tokenizer.decode(tokens[0], skip_special_tokens=True).replace("\\n", " "))
"""


def prepare(options: argparse.Namespace, home: Path) -> None:
    """The model and the texts under the names that the page has for them."""
    link = home / "smol"
    if not link.exists():
        link.symlink_to(options.model.resolve())
    (home / "text").mkdir(exist_ok=True)
    size = int(options.windows * LENGTH * CHARACTERS)
    for name, file in (("train", options.train), ("valid", options.dev)):
        text = cleaned(file.read_text(encoding="utf-8"))[:size]
        (home / "text" / f"{name}.txt").write_text(text, encoding="utf-8")


def run(words: list[str], home: Path) -> dict[str, Any]:
    """The seconds of a process on the clock and of the processors, and what it printed."""
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run(
        words, cwd=home, capture_output=True, text=True, check=False, encoding="utf-8",
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)} ends with {done.returncode}:\n{done.stderr}")
    seconds, after = time.perf_counter() - begin, os.times()
    used = sum(getattr(after, name) - getattr(before, name) for name in CHILDREN)
    times = {"seconds": round(seconds, 1), "processor_seconds": round(used, 1)}
    return {**times, "printed": done.stdout.splitlines()}


def command_of(row: dict[str, Any]) -> str:
    """The command of a row, with the names that its options have today."""
    text: str = row["command"]
    for name, today in RENAMED.items():
        text = text.replace(name, today)
    return text


def block(row: dict[str, Any], left_out: tuple[str, ...] = ()) -> str:
    """A command, its seconds, and the lines that say something, but for those that begin so."""
    seconds, used = (round(row[name]) for name in ("seconds", "processor_seconds"))
    lines = [line.rstrip() for line in row["printed"] if line.strip()]
    lines = [line for line in lines if line[0] not in BORDERS and not line.startswith(left_out)]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], "...", *lines[-half:]]
    head = [command_of(row), f"# {seconds} s, {used} s of the processors"]
    return "\n".join(["```text", *head, *lines, "```"])


def write_page(results: dict[str, Any]) -> None:
    """Write all results to the transcript, and some into blocks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    for row in results["rows"]:
        start = re.escape(f"```text\n{command_of(row)}\n")
        text = re.sub(
            rf"{start}.*?^```$", lambda _, r=row: block(r, DETAILS), text, flags=re.M | re.S
        )
    commands = [block(row).removeprefix("```text\n").removesuffix("```") for row in results["rows"]]
    TRANSCRIPT.write_text("\n".join(commands), encoding="utf-8")
    facts = f"about {results['windows']} windows of {LENGTH} tokens; {results['machine']}"
    text = re.sub(r"(?<=<!-- facts -->).*?(?=<!-- end -->)", lambda _: facts, text, flags=re.S)
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("--model", "--train", "--dev"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--windows", type=int, default=32)
    parser.add_argument("--folder", type=Path, help="to work in; by default a temporary one")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        write_page(json.loads(options.json.read_text(encoding="utf-8")))
        return
    machine = f"{loaded_cores()}; {versions('torch', 'transformers', 'peft')}"
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        home = options.folder or Path(temporary)
        prepare(options, home)
        runs = [(f"deadhead {line}", ["-m", "deadhead", *shlex.split(line)]) for line in COMMANDS]
        for name, words in [*runs, ("generate", ["-c", GENERATE])]:
            rows.append({"command": name, **run([sys.executable, *words], home)})
            lines = "\n".join(rows[-1]["printed"])
            print(f"{rows[-1]['seconds']:6.1f} s  {name}\n{lines}", flush=True)
            if options.json is not None:  # a stopped run keeps its rows
                results = {"machine": machine, "windows": options.windows, "rows": rows}
                text = json.dumps(results, indent=1, ensure_ascii=False)
                options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
