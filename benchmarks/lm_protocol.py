"""A language model without some of its parameters, scored as papers score it.

    python benchmarks/lm_protocol.py --model FOLDER --test test.txt --questions FOLDER
                                     --calibration train.txt [other.txt ...] --json FILE
                                     [--kept 0.9 0.8] [--draws 0 1] [--device cuda]
    python benchmarks/lm_protocol.py --model FOLDER --questions FOLDER --check
    python benchmarks/lm_protocol.py --from FILE [FILE ...] --page FILE.csv

Each draw takes windows of 2,048 tokens of a text, and `shrink` keeps a share of the parameters by
its default method. The score is the perplexity of the test text in windows of 2,048, and the
accuracy on six sets of questions without an example: those of FOLDER/SET/*.jsonl.gz, in the words
of lm-evaluation-harness. LAMBADA counts texts whose last word is the likeliest at each token.
`--check` compares the answers with those of the harness. Rows of FILE are not measured again.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import read_rows, write_rows
from page import fill, markdown, run
from shrink_lm import cleaned

from deadhead import load, shrink
from deadhead.heads.model_files import tokenizer_of
from deadhead.tasks import Dataset, Row, dataset, encode
from deadhead.training.evaluation import predict
from deadhead.training.inference import option_likelihoods

WINDOW, BATCH = 2048, 4
LONGEST = 2048  # tokens of a question and an option
KEPT = (0.9, 0.8, 0.7, 0.5)  # shares of the parameters
LAST_WORD = "lambada_openai"
Question = tuple[str, list[str], int]  # its context, options with their blank, the right one
Record = dict[str, Any]

# set -> a question of it; and the metric that papers print
FORMATS: dict[str, tuple[Callable[[Record], Question], str]] = {
    "hellaswag": (lambda r: (r["query"], _blank(r["choices"]), r["gold"]), "acc_norm"),
    "piqa": (lambda r: (_asked(r["query"]), _blank(r["choices"]), r["gold"]), "acc_norm"),
    "arc_easy": (lambda r: (_asked(r["query"]), _blank(r["choices"]), r["gold"]), "acc_norm"),
    "arc_challenge": (lambda r: (_asked(r["query"]), _blank(r["choices"]), r["gold"]), "acc_norm"),
    "boolq": (
        lambda r: (
            f"{r['passage']}\nQuestion: {r['question']}?\nAnswer:", _blank(r["choices"]), r["gold"]
        ),
        "acc",
    ),
    LAST_WORD: (lambda r: (r["context"], _blank([r["continuation"]]), 0), "acc"),
}  # fmt: skip


def _blank(options: list[str]) -> list[str]:
    return [f" {option}" for option in options]


def _asked(question: str) -> str:
    return f"Question: {question}\nAnswer:"


def questions_of(folder: Path, name: str, most: int) -> list[Question]:
    """Return at most `most` questions of a set, always the same."""
    (file,) = folder.glob(f"{name}/*.jsonl.gz")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    chosen = random.Random(0).sample(range(len(records)), min(most, len(records)))
    return [FORMATS[name][0](records[number]) for number in sorted(chosen)]


def as_data(questions: list[Question]) -> Dataset:
    rows = [Row((context, *options), (str(right),)) for context, options, right in questions]
    return dataset("choice", "", "test", rows)


def windows(file: Path, tokenizer: Any) -> torch.Tensor:
    data = file.read_bytes()
    text = cleaned((gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8"))
    ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
    return ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)


@torch.no_grad()
def losses(model: Any, text: torch.Tensor) -> list[float]:
    """The mean loss of each window."""
    values: list[float] = []
    for ids in text.to(model.device).split(BATCH):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
        every = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), ids[:, 1:], reduction="none"
        )
        values += [round(value, 6) for value in every.mean(1).tolist()]
    return values


@torch.no_grad()
def last_words(model: Any, tokenizer: Any, questions: list[Question]) -> np.ndarray:
    """Whether each token of the last word is the likeliest one."""
    right = []
    for context, (word,), _ in questions:
        begin = tokenizer(context)["input_ids"]
        ids = tokenizer(context + word)["input_ids"]
        number = len(ids) - len(begin)
        inputs = torch.tensor([ids[:-1]], device=model.device)
        logits = model(input_ids=inputs, use_cache=False, logits_to_keep=number).logits[0]
        right.append(logits.argmax(-1).tolist() == ids[-number:])
    return np.array(right)


def accuracies(model: Any, tokenizer: Any, sets: dict[str, Any]) -> dict[str, float]:
    """The metric of each set that papers print, in percent."""
    scores = {}
    for name, own in sets.items():
        if name == LAST_WORD:
            value = float(last_words(model, tokenizer, own).mean())
        else:
            value = predict(model, own).score(own.data)[FORMATS[name][1]]
        scores[name] = round(100 * value, 3)
    return scores


def measure(options: argparse.Namespace) -> None:
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    tokenizer = tokenizer_of(options.model)
    whole = load(options.model, dtype=torch.float32).to(options.device).eval()
    test = windows(options.test, tokenizer)[: options.scored]
    sets: dict[str, Any] = {}
    for name in FORMATS:
        asked = questions_of(options.questions, name, options.most)
        sets[name] = asked
        if name != LAST_WORD:
            sets[name] = encode(as_data(asked), tokenizer, max_length=LONGEST)
    texts = {file.name.split(".")[0]: windows(file, tokenizer) for file in options.calibration}
    for row in plan(options, texts):
        if any(row.items() <= other.items() for other in rows_of(options.json)):
            continue
        model, begin = copy.deepcopy(whole), time.perf_counter()
        if row["kept"] < 1:
            text = texts[row["calibration"]]
            drawn = random.Random(row["draw"]).sample(range(len(text)), options.windows)
            batches = [{"input_ids": ids, "labels": ids} for ids in text[drawn].split(BATCH)]
            report = shrink(
                model, batches, parameters=row["kept"], on=(1, WINDOW), seed=row["draw"],
                timed=False, progress=False,
            )  # fmt: skip
            row |= {"windows": options.windows, "layers": report.removed_layers}
            row |= {"sizes": report.sizes}
            row["stages"] = {name: round(value, 1) for name, value in report.seconds.items()}
        row["seconds"] = round(time.perf_counter() - begin, 1)
        row["losses"] = losses(model, test)
        row["perplexity"] = round(float(np.exp(np.mean(row["losses"]))), 4)
        row |= accuracies(model, tokenizer, sets)
        print({name: value for name, value in row.items() if name != "losses"}, flush=True)
        keep(options, row)


def plan(options: argparse.Namespace, texts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    size = {"questions": options.most, **({"tf32": True} if options.tf32 else {})}
    yield {"calibration": "", "kept": 1.0, "draw": 0, **size}
    for draw, kept, name in product(options.draws, options.kept, texts):
        yield {"calibration": name, "kept": kept, "draw": draw, **size}


def rows_of(file: Path) -> list[dict[str, Any]]:
    return read_rows(file) if file.exists() else []


def keep(options: argparse.Namespace, row: dict[str, Any]) -> None:
    """Add a row to the file, which other processes may do as well."""
    with options.json.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_rows(options.json, options.device, [*rows_of(options.json), row])


def check(options: argparse.Namespace) -> None:
    """Print for each set how many answers are those of lm-evaluation-harness."""
    from against_lm_eval import harness_likelihoods
    from lm_eval.models.huggingface import HFLM

    tokenizer = tokenizer_of(options.model)
    model = load(options.model, dtype=torch.float32).to(options.device).eval()
    harness = HFLM(pretrained=model, tokenizer=tokenizer, max_length=LONGEST - 1, batch_size=4)
    for name in FORMATS:
        asked = questions_of(options.questions, name, options.most)
        if name == LAST_WORD:
            same = last_words(model, tokenizer, asked) == last_words_of(harness, asked)
            print(f"{name}: {int(same.sum())} of {len(same)} answers are the same", flush=True)
            continue
        encoded = encode(as_data(asked), tokenizer, max_length=LONGEST)
        ours = right(asked, option_likelihoods(model, encoded))
        theirs = right(asked, harness_likelihoods(harness, as_data(asked)))
        for metric, answers in ours.items():
            same = answers == theirs[metric]
            score = f"{100 * answers.mean():.1f} %"
            print(f"{name}, {metric} {score}: {int(same.sum())} of {len(same)} are the same")


def right(asked: list[Question], likelihoods: np.ndarray) -> dict[str, np.ndarray]:
    """Whether each answer is right, by the likelihoods of all options."""
    values = iter(likelihoods)
    answers: dict[str, list[bool]] = {"acc": [], "acc_norm": []}
    for _, options, number in asked:
        own = np.array([next(values) for _ in options])
        letters = np.array([len(option) - 1 for option in options])  # without the blank
        answers["acc"].append(int(own.argmax()) == number)
        answers["acc_norm"].append(int((own / letters).argmax()) == number)
    return {metric: np.array(some) for metric, some in answers.items()}


def last_words_of(harness: Any, asked: list[Question]) -> np.ndarray:
    from lm_eval.api.instance import Instance

    requests = [
        Instance("loglikelihood", doc={}, arguments=(context, word), idx=number)
        for number, (context, (word,), _) in enumerate(asked)
    ]
    return np.array([greedy for _, greedy in harness.loglikelihood(requests, disable_tqdm=True)])


def table(files: list[Path]) -> str:
    """A row for each text and share: the mean and the deviation over the draws."""
    rows = [row for file in files for row in rows_of(file)]
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["calibration"], row["kept"]), []).append(row)
    lines = []
    for (text, kept), some in sorted(groups.items(), key=lambda group: (-group[0][1], group[0][0])):
        names = ("perplexity", *FORMATS)
        columns = [[row[name] for row in some] for name in names]
        columns.append([float(np.mean([row[name] for name in FORMATS])) for row in some])
        own = [f"{np.mean(c):.1f}{spread(c)}" for c in columns]
        lines.append([text or "whole", f"{kept:.0%}", str(len(some)), *own])
    titles = ["calibrated on", "kept", "draws", "perplexity", *FORMATS, "mean of six"]
    return markdown(titles, lines)


def spread(values: list[float]) -> str:
    return f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--calibration", type=Path, nargs="+", help="text files")
    parser.add_argument("--test", type=Path, help="a text file, to score on")
    parser.add_argument("--questions", type=Path, help="a folder with a folder for each set")
    parser.add_argument("--most", type=int, default=1000, help="questions of a set")
    parser.add_argument("--windows", type=int, default=128, help="to calibrate with, in each draw")
    parser.add_argument("--scored", type=int, help="windows of the test text; default: all")
    parser.add_argument("--kept", type=float, nargs="+", default=KEPT)
    parser.add_argument("--draws", type=int, nargs="+", default=[*range(5)])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="as in shrink_curves.py")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", dest="results", type=Path, nargs="+", help="measured before")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if options.results and options.page:
        fill(options.page, "lm_protocol.py", [table(options.results)])
    elif options.check:
        check(options)
    elif options.model and options.json:
        measure(options)
    else:
        parser.error("name --model and --json to measure, or --from and --page to write a table")


if __name__ == "__main__":
    run(main)
