"""The models and data of `finetune.py`, and the trials that it runs in processes of their own.

Several trainings can share a GPU: each in a process, so that none changes the numbers of another.
They run at the same time only where NVIDIA's MPS runs; without it they take turns.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification

from deadhead import discover, prune, strategies
from deadhead.files.hub import quiet
from deadhead.tasks import Encoded, Row, dataset, encode, load_data
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate

SHAPES = {"tiny": (2, 4, 16), "BERT-small": (4, 8, 512), "BERT-base": (12, 12, 768)}
# layers, heads, width
VOCABULARY, LABELS, BATCH = 30522, ("entailment", "neutral", "contradiction"), 32
POS_TESTS = ("en", "de", "nl", "fr", "es", "ru", "ar", "he", "fa", "ur", "hi", "tr", "zh", "ja")
Rows = list[dict[str, Any]]


def bert(shape: str, seed: int = 0) -> Any:
    layers, heads, width = SHAPES[shape]
    torch.manual_seed(seed)
    config = BertConfig(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_size=width,
        intermediate_size=4 * width,
        vocab_size=VOCABULARY,
        num_labels=len(LABELS),
    )
    return BertForSequenceClassification(config)


def mnli_like(examples: int, seed: int = 0) -> Encoded:
    """Random windows of MNLI's lengths, whose label can be learned from their second word."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(np.round(rng.lognormal(np.log(35.5), 0.43, examples)), 8, 128).astype(
        np.int32
    )
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(1000, VOCABULARY, starts[-1]).astype(np.int32)
    labels = rng.integers(0, len(LABELS), examples).astype(np.int32)
    ids[starts[:-1] + 1] = 200 + labels
    arrays = {
        "ids": ids, "types": np.zeros(len(ids), np.uint8), "lengths": lengths, "labels": labels,
        "label_lengths": np.ones(examples, np.int32), "rows": np.arange(examples, dtype=np.int32),
    }  # fmt: skip
    rows = [Row(("a", "b"), (LABELS[label],)) for label in labels]
    return Encoded(
        data=dataset("mnli", "en", "train", rows),
        labels=LABELS,
        arrays=arrays,
        pad=0,
        notes={},
        fingerprint=f"synthetic/{examples}/{seed}",
    )


def _side(shape: str, seed: int, begin: float) -> tuple[float, float, int]:
    """One of several trials in a process of its own: when its second epoch began and ended."""
    model, data = bert(shape, seed), mnli_like(16384)
    while time.time() < begin:
        time.sleep(0.01)
    history = finetune(
        model,
        data,
        Settings(batch=BATCH, precision="bf16", epochs=3, seed=seed),
        device="cuda",
        progress=False,
    )
    end = time.time()
    return (
        end - sum(e.seconds for e in history.epochs[1:]),
        end,
        sum(e.examples for e in history.epochs[1:]),
    )


def side_by_side(shape: str, trials: int) -> Rows:
    """Examples per second of all trials together, once all have start."""
    with ProcessPoolExecutor(trials, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(_side, [shape] * trials, range(trials), [time.time() + 25] * trials))
    took = max(end for _, end, _ in done) - min(start for start, _, _ in done)
    total = sum(examples for _, _, examples in done)
    return [
        {
            "what": f"{shape}, {trials} trials side by side",
            "value": total / took,
            "unit": "examples/s",
            "goal": ">= 6000",
        }
    ]


def _pos_data(options: argparse.Namespace) -> tuple[Encoded, dict[str, Encoded]]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    train = encode(load_data("pos", "en", "train", root=options.data), tokenizer, max_length=128)
    tests = {lang: load_data("pos", lang, "test", root=options.data) for lang in POS_TESTS}
    return train, {
        lang: encode(data, tokenizer, max_length=128, labels=train.labels)
        for lang, data in tests.items()
    }


def _pos_trials(
    options: argparse.Namespace, seeds: list[int], graphs: bool = True
) -> list[dict[str, Any]]:
    """Trials in one process: seed 0 keeps all heads, the others lose twelve at random."""
    train, tests = _pos_data(options)
    rows = []
    for seed in seeds:
        start = time.perf_counter()
        torch.manual_seed(seed)
        with quiet():
            auto = transformers.AutoModelForTokenClassification
            model = auto.from_pretrained(
                options.model, num_labels=len(train.labels), dtype=torch.float32
            )
        if seed:
            prune(model, strategies.random_k(discover(model), 12, seed=seed))
        settings = Settings(
            batch=BATCH,
            rate=1e-4,
            epochs=3,
            warmup=0.1,
            seed=seed,
            precision="bf16" if options.device == "cuda" else "float32",
        )
        history = finetune(
            model, train, settings, device=options.device, progress=False, graphs=graphs
        )
        trained = time.perf_counter()
        scores = {lang: values["micro_f1"] for lang, values in evaluate(model, tests).items()}
        ended = time.perf_counter()
        rows.append(
            {
                "seed": seed,
                "training": trained - start,
                "scoring": ended - trained,
                "notes": history.notes,
                "scores": scores,
            }
        )
    return rows


def pos(options: argparse.Namespace) -> Rows:
    """Seconds per trial, over all trials, with the start of processes and the reading of data."""
    start = time.perf_counter()
    workers = min(options.workers, options.trials)
    shares = [list(range(options.trials))[i::workers] for i in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        done = [
            trial for share in pool.map(_pos_trials, [options] * workers, shares) for trial in share
        ]
    each = (time.perf_counter() - start) / options.trials
    rows: Rows = [
        {
            "what": f"POS, {options.trials} trials in {workers} processes, a trial",
            "value": each,
            "unit": "s",
            "goal": "<= 10",
            "trials": done,
        }
    ]
    return rows + [
        _told(trial, "POS trial") for trial in sorted(done, key=lambda t: int(t["seed"]))
    ]


def pos_eager(options: argparse.Namespace, others: Rows) -> Rows:
    """The first of those trials without graphs, and how its scores differ from those with them."""
    rows = [_told(trial, "POS, eager, trial") for trial in _pos_trials(options, [0], graphs=False)]
    for other in others:
        if other["what"].startswith("POS trial 0:"):
            apart = [
                abs(rows[0]["scores"][lang] - value) for lang, value in other["scores"].items()
            ]
            rows[0]["largest difference to POS trial 0"] = max(apart)
    return rows


def _told(trial: dict[str, Any], kind: str) -> dict[str, Any]:
    other = [v for lang, v in trial["scores"].items() if lang != "en"]
    times = f"trained {trial['training']:.1f} s, scored {trial['scoring']:.1f} s"
    what = f"{kind} {trial['seed']}: {times}; en {100 * trial['scores']['en']:.2f}, others"
    return {
        "what": what,
        "value": 100 * sum(other) / len(other),
        "unit": "mean accuracy",
        "notes": trial["notes"],
        "scores": trial["scores"],
    }
