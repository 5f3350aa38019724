"""Finished studies of built-in recipes without training: with printed or with random numbers."""

import random
import re

from deadhead.papers.claims.from_papers import rows
from deadhead.studies import load
from deadhead.studies.trial import label
from deadhead.tasks import task_of
from hand_made import of_recipe

HEADS = [f"encoder.{layer}.{head}" for layer in range(12) for head in range(12)]
BEST = 7  # heads gone at the best score of every search
WORSE = 0.3  # how much lower, as a share, all other trials of a search score


def as_printed(name, folder):
    """The study of a recipe that found what the paper's table of the same name says."""
    paper, table = name.split("/")
    if paper == "contributions":
        return of_recipe(folder, load(name), _merged() if table == "table6" else _searches(table))
    return of_recipe(folder, load(name), _scores(paper, table))


def _scores(paper, table):
    by_place = {
        (r["task"], r["source"], r["remove"]): (float(r["value"]), float(r["percent"]))
        for r in rows(paper, table)
    }

    def result_of(cell):
        trial = cell.trial
        task, source = task_of(trial.get("task")), trial.get("source")
        value, percent = by_place[
            task.name, source, label(cell.labels["remove"]) if trial.get("remove") else "none"
        ]
        (split,) = trial.get("splits")
        metrics = {
            f"{source}/{split}/{task.metric}": value if task.metric == "bleu" else value / 100
        }
        return {
            "metrics": metrics,
            "removed": HEADS[: round(1.44 * percent)],
            "cost": {"heads before": 144},
        }

    return result_of


def _searches(table):
    """The best of every search, at k = 7, is what the table says.

    Table 5 gives differences from the unpruned models of tables 2 and 3.
    """
    place = ("model", "task", "source", "target", "setting")
    scores = {
        (*(r[axis] for axis in place), r["arm"]): float(r["value"])
        for name in ("table2", "table3", "table4")
        for r in rows("contributions", name)
    }
    if table == "table5":
        for r in rows("contributions", "table5"):
            at = tuple(r[axis] for axis in place)
            scores[(*at, r["arm"])] = scores[(*at, "full")] + float(r["value"])

    def result_of(cell):
        trial, arm = cell.trial, str(cell.labels["arm"])
        source = cell.labels.get("source") or "en"  # which tables 4 and 5 have fixed
        train = cell.labels.get("train", source)
        metrics = {}
        for target in trial.get("targets"):
            setting = (
                "multi-lingual"
                if train != source
                else "mono-lingual"
                if target == source
                else "cross-lingual"
            )
            value = scores.get(
                (trial.get("model"), trial.get("task"), source, target, setting, arm)
            )
            lower = WORSE if arm != "full" and cell.labels["k"] != BEST else 0.0
            if value is None:  # the source itself, which only table 4 prints: it gains nothing
                value, lower = 50.0, lower if arm != "full" else 0.0
            metrics[f"{target}/test/{task_of(trial.get('task')).metric}"] = value / 100 - lower
        return {"metrics": metrics}

    return result_of


def _merged():
    scores = {
        (r["task"], frozenset(r["source"].split("+")), r["target"], r["arm"]): float(r["value"])
        for r in rows("contributions", "table6")
    }

    def result_of(cell):
        labels = cell.labels
        train = labels.get("train", labels["source"])
        way = "FL" if labels["arm"] == "full" else str(labels.get("rank.merge", "EC")).upper()
        best = labels["k"] in (0, BEST) and (way != "EC" or labels["source"] == train[1])
        (target,) = {"en", "de", "ar", "he", "zh"} - set(train)
        value = scores[labels["task"], frozenset(train), target, way] / 100 - (
            0.0 if best else WORSE
        )
        metric = task_of(labels["task"]).metric
        return {
            "metrics": {
                f"{target}/test/{metric}": value,
                **{f"{known}/test/{metric}": 0.9 for known in train},
            }
        }

    return result_of


def complete(name, folder, scale=None):
    """The study of a recipe that found something everywhere."""
    rng = random.Random(name)
    return of_recipe(folder, load(name, scale=scale), lambda cell: _something(cell, rng))


def _something(cell, rng):
    trial = cell.trial
    metric, targets = task_of(trial.get("task")).metric, trial.get("targets", ())
    splits = [f"{split}{mark}" for split in trial.get("splits", ()) for mark in ("", "@1")]
    worth = 30 if metric == "bleu" else 1
    remove = trial.get("remove")
    removed = [] if remove is None else HEADS[: _heads(str(label(remove)))]
    return {
        "metrics": {
            f"{target}/{split}/{metric}": worth * rng.uniform(0.4, 0.9)
            for target in targets
            for split in splits
        },
        "details": {**_measures(trial, targets, removed, rng), **_ranking(trial, rng)},
        "removed": removed,
        "cost": {"heads before": 144},
    }


def _heads(remove):
    """How many of 144 heads go: 12 for each layer, a share, or all but those kept."""
    numbers = [
        int(number)
        for number in re.findall(r"\d" if remove.startswith("per_layer") else r"\d+", remove)
    ]
    if remove.startswith("layers"):
        return 12 * sum(numbers)
    return 144 - sum(numbers) if remove.startswith("per_") else round(1.44 * numbers[0])


def _measures(trial, targets, removed, rng):
    measures = trial.get("measure")
    if not measures:
        return {}
    left = HEADS[: 144 - len(removed)] if "entropy" not in str(measures) else HEADS[::10]
    apart = [
        [0.0 if one == other else rng.uniform(0.5, 2.0) for other in targets] for one in targets
    ]
    stage = lambda: {  # noqa: E731
        "weights": {head: rng.uniform(1.0, 1.05) for head in left},
        "entropy": {head: rng.uniform(1.0, 2.0) for head in left},
        "embeddings": {
            "silhouette": rng.uniform(0.0, 0.5),
            "centroids": {"languages": list(targets), "distances": apart},
        },
    }
    return {"measures": {name: stage() for name in ("before", "first", "after")}}


def _ranking(trial, rng):
    rank, source = trial.get("rank"), trial.get("source")
    if not rank:
        return {}
    languages = source if isinstance(source, list) else [source]
    return {
        "ranking": {
            "method": rank.get("method", "gradient"),
            "languages": languages,
            "scores": {head: rng.random() for head in HEADS},
        }
    }
