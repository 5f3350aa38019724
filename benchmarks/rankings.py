"""Which ranking of heads is right? One row for each, on fixed models and fixed examples.

    python benchmarks/rankings.py [RANKING ...] --json FILE --work FOLDER
                                  [--on mini-mbert --model FOLDER --data FOLDER]

A RANKING is a function `rank(model, batches) -> {head: number}` as `mine.py:rank`, a file of
`deadhead rank` (`mine-{seed}.json` for one file for each model), a method of `deadhead rank`, or
one of ranking_methods.py; without any: all that the table of docs/results/rankers.md has. Heads
with the lowest numbers leave first.

For each seed the model is fine-tuned once, and each ranking orders its heads by some training
examples. Then 10, 50 and 90 % of the heads leave: the loss on test examples is measured after the
cut, after the repair of `shrink` (no labels, no training), and at 50 % after one epoch more. The
area under such a curve is its mean rise over the loss of the whole model. Controls: a random order,
and for each ranking its reverse, only cut. A second call continues; models are kept in --work. The
model and the examples are known by their hashes: no row is measured on others.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from encoder_tasks import Task
from machine import torch_machine
from page import run
from rank import forward, in_passes
from ranking_methods import METHODS
from rankings_page import RANDOM, line_of, table

from deadhead import Ranking, discover, files, load, prune, rank, refit, save
from deadhead.errors import DataError, unknown_name
from deadhead.layout import Batch, Head
from deadhead.rankers import RANKERS
from deadhead.rankers.run import check_scores, frozen
from deadhead.shrinking.held_out import mean_loss
from deadhead.strategies.draws import rng_for
from deadhead.tasks import batches, draw_examples
from deadhead.training import finetune
from deadhead.world import MODELS

# Fixed before anything was measured.
SEEDS = (0, 1, 2, 3, 4)
LEVELS = (10, 50, 90)  # % of the heads removed
TRAINED = 50  # the level that is also trained for one epoch
TOGETHER = 8  # examples of a batch: of similar length, so that little is padding
TABLE = (RANDOM, "taylor", "gradient", "fisher", "entropy", *METHODS)
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all rows of a file share.

    model, train, test: hashes of the pretrained weights, and of all examples of the task.
    learnt: training examples of the model.
    ranked: training examples, drawn by the seed, that rankings and repairs read.
    again: of the epoch after the repair. scored: test examples, drawn by the seed.
    """

    model: str
    train: str
    test: str
    learnt: int
    ranked: int
    again: int
    scored: int
    task: str = "pos"
    epochs: int = 2
    batch: int = 16
    rate: float = 2e-4


BENCHES = {
    "world": Bench(
        model="dfd46cd2c522531d", train="40c87bbc6eaf45a2", test="e404df706c3cd4d0",
        learnt=1000, ranked=64, again=256, scored=128, rate=1e-3,
    ),
    "mini-mbert": Bench(
        model="76b2a6e0275a0293", train="fc705cc5102e3b90", test="b52b565fdddd7de5",
        learnt=400, ranked=48, again=64, scored=48,
    ),
}  # fmt: skip


class Models:
    """The examples of a benchmark, and its model for each seed."""

    def __init__(self, bench: Bench, model: str, data: str, work: Path):
        self.bench, self.work = bench, work
        check_hash(f"the weights of {model}", hash_of(Path(model)), bench.model)
        self.task = Task(name=bench.task, model=model, data=data, train=bench.learnt)
        self.test = self.task.read("en", "test")
        check_hash(f"the training set in {data}", self.task.examples.fingerprint, bench.train)
        check_hash(f"the test set in {data}", self.test.fingerprint, bench.test)
        self.settings = {"batch": bench.batch, "rate": bench.rate}

    def of(self, seed: int) -> tuple[Any, str]:
        """The fine-tuned model, and the hash of its weights."""
        home = self.work / f"seed-{seed}"
        if not home.exists():
            model = self.task.new_model(seed)
            self.task.train_model(model, seed, epochs=self.bench.epochs, **self.settings)
            save(model, home, self.task.tokenizer)
        return load(home).eval(), hash_of(home)

    def examples(self, seed: int) -> list[Batch]:
        """Training examples to rank and to repair with."""
        return self.batches(self.task.examples, self.bench.ranked, seed)

    def batches(self, data: Any, count: int, seed: int) -> list[Batch]:
        encoded = self.task.encoded(draw_examples(data, count, seed))
        return list(batches(encoded, size=TOGETHER, sort=True))

    def train_again(self, model: Any, seed: int) -> None:
        """One more epoch, of some training examples."""
        examples = self.task.encoded(draw_examples(self.task.examples, self.bench.again, seed))
        settings = self.task.settings(seed, epochs=1, **self.settings)
        finetune(model, examples, settings, progress=False)
        model.eval()

    def loss(self, model: Any, seed: int) -> float:
        """The mean loss of the test examples of a seed."""
        with frozen(model, seed):
            return round(mean_loss(model, self.batches(self.test, self.bench.scored, seed)), 6)


def hash_of(folder: Path) -> str:
    file = folder / "model.safetensors"
    if not file.is_file():
        raise DataError(f"there is no {file}.", "name the folder of the model with --model")
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def check_hash(what: str, value: str, expected: str) -> None:
    if value != expected:
        hint = "rows can only be compared on the same ones: benchmarks/rankings.py has its own"
        raise DataError(f"{what} has the hash {value}, the benchmark expects {expected}.", hint)


def method_of(name: str, seed: int) -> Callable[[Any, Sequence[Batch]], Any]:
    """The function of a RANKING."""
    file, _, function = name.rpartition(":")
    if file.endswith(".py"):
        return function_of(Path(file), function)
    if name.endswith(".json"):
        ranking = Ranking.load(name.replace("{seed}", str(seed)))
        return lambda model, batches: ranking.scores_for(discover(model))
    if name == RANDOM:
        rng = rng_for(seed, "rankings")
        return lambda model, batches: {head: rng.random() for head in discover(model)}
    if name in METHODS:
        return METHODS[name]
    if name not in RANKERS:
        raise unknown_name("ranking", name, [*RANKERS, *METHODS, RANDOM])
    return lambda model, batches: rank(model, batches, name, seed=seed, progress=False)


def function_of(file: Path, name: str) -> Callable[[Any, Sequence[Batch]], Any]:
    """A function of a file of Python."""
    spec = spec_from_file_location(file.stem, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise DataError(f"there is no {file}.", "write FILE.py:FUNCTION, such as mine.py:rank")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        names = [n for n, value in vars(module).items() if callable(value)]
        raise unknown_name(f"function of {file}", name, names)
    function: Callable[[Any, Sequence[Batch]], Any] = getattr(module, name)
    return function


def order_of(name: str, result: Any, model: Any) -> tuple[Head, ...]:
    """The heads as they leave; an error unless each has one finite score."""
    scores = result.scores if isinstance(result, Ranking) else result
    if not isinstance(scores, Mapping):
        hint = "return {head: number for head in discover(model)}"
        raise DataError(f"{name} returned {type(scores).__name__}, not scores by head.", hint)
    layout = discover(model)
    by_head = {Head.parse(h) if isinstance(h, str) else h: float(x) for h, x in scores.items()}
    check_scores(name, layout, by_head)
    return Ranking(scores=by_head, layout=layout, method=name).order


def measure(models: Models, name: str, seed: int, known: Mapping[int, str]) -> Row:
    """The row of a ranking and a seed. known: the hashes of the models of other rows."""
    whole, own = models.of(seed)
    if known.get(seed, own) != own:
        message = f"{models.work}/seed-{seed} has the hash {own}, its rows are of {known[seed]}."
        raise DataError(message, "name another --json, or the --work folder of these rows")
    examples, result = models.examples(seed), list[Any]()
    method, copied = method_of(name, seed), copy.deepcopy(whole)
    torch.manual_seed(seed)
    passes, seconds = in_passes(
        lambda: result.append(method(copied, examples)), lambda: forward(whole, examples), 1
    )
    order = order_of(name, *result, whole)
    row: Row = {"ranking": name, "seed": seed, "model": own, "whole": models.loss(whole, seed)}
    row |= {"passes": round(passes, 2), "seconds": round(seconds, 3)}
    row |= {form: {} for form in ("cut", "repaired", "reversed")}
    for level in LEVELS:
        count = round(level * len(order) / 100)
        row["cut"][level] = models.loss(prune(copy.deepcopy(whole), order[:count]), seed)
        row["reversed"][level] = models.loss(prune(copy.deepcopy(whole), order[-count:]), seed)
        model = copy.deepcopy(whole)
        refit(model, examples, order[:count], progress=False)
        row["repaired"][level] = models.loss(model, seed)
        if level == TRAINED:
            models.train_again(model, seed)
            row["trained"] = models.loss(model, seed)
    return row


class Rows:
    """The rows of a file: each is written as it comes, and a second call continues."""

    def __init__(self, file: Path, bench: str):
        self.file = file
        self.facts = {"bench": bench, **asdict(BENCHES[bench])}
        stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if stored.get("bench", self.facts) != self.facts:
            message = f"{file} has rows of another benchmark: {stored['bench']}."
            raise DataError(message, "name another file with --json")
        self.rows: list[Row] = stored.get("rows", [])

    def add(self, row: Row) -> None:
        self.rows.append(row)
        results = {"machine": torch_machine("cpu"), "bench": self.facts, "rows": self.rows}
        files.write(self.file, json.dumps(results, indent=1) + "\n")

    def missing(self, names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """What is not measured yet, by seed: a stopped run has the same seeds of all rankings."""
        known = {(row["ranking"], row["seed"]) for row in self.rows}
        for seed in SEEDS:
            yield from ((name, seed) for name in names if (name, seed) not in known)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rankings", nargs="*", default=TABLE, metavar="RANKING")
    parser.add_argument("--on", choices=BENCHES, default="world")
    parser.add_argument("--model", default=str(MODELS / "encoder"), help="its pretrained model")
    parser.add_argument("--data", default="world", help="the folder of its data")
    parser.add_argument("--work", type=Path, required=True, help="the folder of its models")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.rankings:
        method_of(name, SEEDS[0])  # or raise before anything takes time
    rows = Rows(options.json, options.on)
    models = Models(BENCHES[options.on], options.model, options.data, options.work)
    for name, seed in rows.missing(dict.fromkeys((RANDOM, *options.rankings))):
        rows.add(measure(models, name, seed, {row["seed"]: row["model"] for row in rows.rows}))
        print(seed, line_of(rows.rows, name), flush=True)
    print(table(rows.rows))


if __name__ == "__main__":
    run(main)
