"""Score against share removed, for every way to choose units and to make up for their loss.

    python benchmarks/shrink_curves.py --model MODEL --data DIR --task pos,ner --seed 0,1
                                       --out FOLDER [--parts heads,retrained] [--device cuda]
                                       [--processes 5] [--like ROWS.jsonl.xz]
    python benchmarks/shrink_curves_report.py FOLDER/*.jsonl

One run is one task and one seed: the model is fine-tuned once, each method chooses its units once,
and every row is a copy of this model without them. So all rows of a choice and share lose the same
units, whatever is done about the loss:

    cut, mean, refit        the repairs of `shrink`, without any training
    ..., one epoch          the same, then one epoch of training
    retrained               as in the papers: the pretrained model is cut, then fine-tuned

`whole, one epoch` is the control of all trainings of one epoch: the whole model is trained on.
`gradient, highest` is the opposite of `gradient`: it removes the heads with the highest scores.
Rows are in FOLDER/TASK-SEED.jsonl, model and choices in FOLDER/TASK-SEED. The same command does
only what is missing there, also after a kill. Each task has a process of its own, since its data
take longer to load than a seed takes to fine-tune on a GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from encoder_tasks import Task
from machine import now
from page import run
from shrink_curves_plan import METHODS, PARTS, SHARES, Part, chosen_parts, narrowed, parts_like
from shrink_curves_rows import (
    EPOCH,
    HIGHEST,
    LOWEST,
    REPAIRED,
    RETRAINED,
    WHOLE,
    Key,
    Row,
    Rows,
    key_of,
    read,
)

from deadhead import files, load, prune, rank, refit, save
from deadhead.errors import DeadheadError, unknown_name
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.layout import HeadLayout, Kind
from deadhead.rankers.run import frozen
from deadhead.shrinking import Choice, read_targets, removal
from deadhead.shrinking.candidates import CANDIDATES
from deadhead.shrinking.choose import choose_by_each
from deadhead.shrinking.held_out import mean_loss, split_examples
from deadhead.shrinking.target import count_of

OTHERS = {  # languages that are scored and neither learnt nor calibrated on
    "pos": ("de", "fr", "ru", "tr", "zh"),
    "ner": ("nl",),
    "slots": ("de", "nl", "da", "it", "tr", "zh"),
    "xnli": ("es", "de", "ar", "tr", "zh"),
}
KINDS: dict[str, tuple[Kind, ...]] = {
    "heads": ("heads",),
    "neurons": ("neurons",),
    "both": ("heads", "neurons"),
}
CANDIDATES_OF = dict(zip(REPAIRED, ((), ("mean",), CANDIDATES), strict=True))
TASKS = ("pos", "ner", "slots", "sst2", "xnli")
Untrained = tuple[Key, Any, float]  # a model before its epoch, and the seconds that it took


class Run:
    """One task and seed: the whole model, its calibration data and the choices."""

    def __init__(self, arguments: argparse.Namespace, task: Task):
        self.arguments, self.seed, self.task = arguments, arguments.seed, task
        self.together = arguments.together
        self.home = arguments.out / f"{arguments.task}-{self.seed}"
        if not self.home.exists():
            model = self.task.train_model(self.task.new_model(self.seed), self.seed)
            files.put_folder(self.home, lambda draft: save(model, draft / "model"))
        self.whole = load(self.home / "model").to(arguments.device).eval()
        self.layout = layout_of(find_every_site(self.whole))
        draw = partial(self.task.calibration, self.seed, arguments.examples)
        self.fit, self.held_out = split_examples(draw(arguments.tokens))
        # the same examples in fewer batches: without gradients, more tokens fit into memory
        self.long_fit, _ = split_examples(draw(4 * arguments.tokens))
        self.choices = Choices(self)

    def rows(self, parts: Sequence[Part], known: set[Key]) -> Iterator[Row]:
        """The rows that are not known yet, those of one choice and share together."""
        whole: Key = ("heads", "none", 0, WHOLE)
        trained: Key = ("heads", "none", 0, WHOLE + EPOCH)
        if whole not in known:
            yield self.row(whole, self.whole, 0.0)
        untrained: list[Untrained] = []
        if trained not in known and any(t.endswith(EPOCH) for p in parts for t in p.treatments):
            untrained.append((trained, copy.deepcopy(self.whole), 0.0))
        for units, choice, share in dict.fromkeys(
            (part.units, choice, share)
            for share in SHARES
            for part in parts
            for choice in part.choices
            if share in part.shares
        ):
            treatments = {
                treatment
                for part in parts
                if part.units == units and choice in part.choices and share in part.shares
                for treatment in part.treatments
                if (units, choice, share, treatment) not in known
            }
            if treatments:
                yield from self.treated((units, choice, share), treatments, untrained)
            while len(untrained) >= self.together:
                yield from self.trained_on(untrained[: self.together])
                del untrained[: self.together]
        yield from self.trained_on(untrained)

    def treated(
        self, place: tuple[str, str, int], treatments: set[str], untrained: list[Untrained]
    ) -> Iterator[Row]:
        """A row for each treatment of the model without the units of a choice.

        Those of one epoch are added to the models that are still to be trained.
        """
        units, choice, share = place
        removed = self.choices.of(units, share, choice)
        for name, candidates in CANDIDATES_OF.items():
            if not {name, name + EPOCH} & treatments:
                continue
            model, begin = copy.deepcopy(self.whole), now(self.arguments.device)
            refit(model, self.long_fit, **removed, candidates=candidates, progress=False)
            seconds = now(self.arguments.device) - begin
            if name in treatments:
                yield self.row((*place, name), model, seconds)
            if name + EPOCH in treatments:
                untrained.append(((*place, name + EPOCH), model, seconds))
        if RETRAINED in treatments:
            begin = now(self.arguments.device)
            model = prune(self.task.new_model(self.seed), **removed)
            self.task.train_model(model, self.seed)
            seconds = now(self.arguments.device) - begin
            yield self.row((*place, RETRAINED), model, seconds)

    def trained_on(self, untrained: Sequence[Untrained]) -> Iterator[Row]:
        """The rows of models after one epoch, in which all are trained at once."""
        if not untrained:
            return
        begin = now(self.arguments.device)
        self.task.train_one_epoch([model for _, model, _ in untrained], self.seed, self.whole)
        each = (now(self.arguments.device) - begin) / len(untrained)
        for key, model, seconds in untrained:
            model.eval()
            row = self.row(key, model, seconds + each)
            yield row | ({"together": len(untrained)} if len(untrained) > 1 else {})
        if self.arguments.device == "cuda":
            torch.cuda.empty_cache()  # other processes need the memory of the training

    def row(self, key: Key, model: Any, seconds: float) -> Row:
        """seconds: to remove the units and make up for them, without the choice."""
        units, choice, share, treatment = key
        with frozen(model, self.seed):
            loss = mean_loss(model, self.held_out)
        return {
            "task": self.task.name,
            "seed": self.seed,
            "units": units,
            "choice": choice,
            "share": share,
            "treatment": treatment,
            "points": {lang: round(p, 4) for lang, p in self.task.points(model).items()},
            "loss": round(loss, 6),
            "seconds": round(seconds, 3),
            "ended": round(time.time()),
            "parameters": sum(p.numel() for p in model.parameters()),
            "heads": kept_heads(layout_of(find_every_site(model))),
        }


def task_of(arguments: argparse.Namespace) -> Task:
    """The task of the arguments, with its data."""
    others = OTHERS.get(arguments.task, ())
    if arguments.others is not None:
        others = tuple(filter(None, arguments.others.split(",")))
    return Task(
        name=arguments.task,
        model=arguments.model,
        data=arguments.data,
        device=arguments.device,
        train=arguments.train,
        scored=arguments.scored,
        others=others,
    )


class Choices:
    """What each method removes, by units and share: kept in a file, so that all runs use it."""

    def __init__(self, run: Run):
        self.run, self.file = run, run.home / "choices.json"
        self.known = json.loads(self.file.read_text()) if self.file.exists() else {}

    def of(self, units: str, share: int, choice: str) -> dict[str, Any]:
        """The heads and neurons of a choice, as arguments of `refit` and `prune`."""
        choices = self.known.setdefault(f"{units} {share} %", {})
        if choice not in choices:
            choices |= self._choose(units, share, {*choices})
            files.write(self.file, json.dumps(self.known))
        return _arguments(choices[choice])

    def _choose(self, units: str, share: int, known: set[str]) -> dict[str, Any]:
        """What all methods of this run remove: they read the data together."""
        run, some = self.run, self.run.arguments.choices
        names = METHODS[units] if some is None else some.split(",")
        methods = [m for m in METHODS[units] if m in names and m not in known]
        budgets = [
            removal(run.layout, kind, count(run.layout, kind, share)) for kind in KINDS[units]
        ]
        choices = choose_by_each(
            run.whole, run.fit, methods, budgets=budgets, seed=run.seed, progress=False
        )
        written = dict(zip(methods, map(_written, choices), strict=True))
        if units == "heads" and some is None:
            ranking = rank(run.whole, run.fit, LOWEST, seed=run.seed, progress=False)
            heads = ranking.highest(count(run.layout, "heads", share))
            written[HIGHEST] = {"heads": [str(head) for head in heads], "neurons": {}}
        return written


def count(layout: HeadLayout, kind: Kind, share: int) -> int:
    """How many units `shrink` removes for this share."""
    total = int(removal(layout, kind, 0).whole)
    return count_of(kind, read_targets({kind: f"{share}%"})[kind], total, total)


def _written(choice: Choice) -> dict[str, Any]:
    neurons = {f"{block} {layer}": list(n) for (block, layer), n in choice.neurons.items()}
    return {"heads": [str(head) for head in choice.heads], "neurons": neurons}


def _arguments(written: Mapping[str, Any]) -> dict[str, Any]:
    places = ((name.split(), numbers) for name, numbers in written["neurons"].items())
    neurons = {(block, int(layer)): numbers for (block, layer), numbers in places}
    return {"heads": written["heads"], "neurons": neurons}


def kept_heads(layout: HeadLayout) -> str:
    """The heads that are left: for each layer a hexadecimal number whose bit i is head i."""
    left = (layer.kept for block in layout.blocks for layer in layout.of(block))
    return " ".join(f"{sum(1 << number for number in numbers):x}" for numbers in left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--task", required=True, help=f"several with commas: {', '.join(TASKS)}")
    parser.add_argument("--seed", required=True, help="several with commas")
    parser.add_argument("--processes", type=int, default=1, help="tasks at the same time")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    like = "make the models that this file has of a task and seed, instead of --parts"
    parser.add_argument("--like", type=Path, help=like)
    parser.add_argument("--shares", help="only these, in %%")
    parser.add_argument("--choices", help=f"only these, such as {', '.join(METHODS['heads'][:2])}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--examples", type=int, default=4000, help="of calibration data")
    parser.add_argument("--train", type=int, help="of the training examples, for a slow machine")
    parser.add_argument("--scored", type=int, help="of the examples of each language, likewise")
    parser.add_argument("--others", help="languages that are only scored, such as de,tr")
    parser.add_argument("--tokens", type=int, default=16384, help="of a calibration batch on a GPU")
    together = "models of a run that are trained for one epoch at once"
    parser.add_argument("--together", type=int, default=1, help=together)
    tf32 = "multiply matrices in TF32 (runs of the model; the sums of a refit stay precise)"
    parser.add_argument("--tf32", action="store_true", default=None, help=tf32)
    arguments = parser.parse_args()
    tasks, seeds = arguments.task.split(","), arguments.seed.split(",")
    for task in tasks:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
    if wrong := [seed for seed in seeds if not seed.isdecimal()]:
        raise DeadheadError(f"--seed is {wrong[0]!r}, not a number.", "type --seed 0,1,2")
    chosen_parts(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if len(tasks) > 1:
        run_each(tasks, arguments.processes)
        return
    task = task_of(arguments)
    for seed in map(int, seeds):
        measure(argparse.Namespace(**{**vars(arguments), "seed": seed}), task)


def measure(arguments: argparse.Namespace, task: Task) -> None:
    """Add the missing rows of one seed."""
    names = ("device", "examples", "train", "scored", "others", "tokens", "tf32")
    facts = {name: getattr(arguments, name) for name in names}
    facts["model"] = Path(arguments.model).name
    if arguments.tf32:
        torch.set_float32_matmul_precision("high")
    parts = chosen_parts(arguments)
    if arguments.like is not None:
        same = parts_like(read([arguments.like]), arguments.task, arguments.seed)
        parts = narrowed(arguments, same)
    rows = Rows(arguments.out / f"{arguments.task}-{arguments.seed}.jsonl", facts)
    for row in Run(arguments, task).rows(parts, rows.known):
        rows.add(row)
        print(row["task"], row["seed"], *key_of(row), row["points"]["en"], flush=True)


def run_each(tasks: Sequence[str], processes: int) -> None:
    """This command for each task; one that fails does not stop the others."""

    def run(task: str) -> int:
        # of an option that is given twice, the last one counts
        command = [sys.executable, *sys.argv, "--task", task]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(processes) as pool:
        codes = list(pool.map(run, tasks))
    if failed := [task for task, code in zip(tasks, codes, strict=True) if code]:
        raise SystemExit(f"Failed: {', '.join(failed)}. The same command runs them again.")


if __name__ == "__main__":
    run(main)
