"""A content made by hand, rich enough to draw every part of the page without a study."""

from itertools import product
from random import Random
from typing import Any

from deadhead.papers.claims import VERDICTS

LAYERS, WIDTH = 6, 8
HEADS = [f"encoder.{layer}.{index}" for layer in range(LAYERS) for index in range(WIDTH)]
LANGUAGES = ["en", "de", "ar", "zh"]
REMOVALS = ["none", "lowest 25", "lowest 50", "random 25", "random 50"]
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)
SEEDS = 3
ARABIC = ["اشترت", "ماريا", "سيارة", "حمراء"]
ENGLISH = ["Maria", "bought", "a", "car", "."]


def made_content(name="a study made by hand", hostile=""):
    """`hostile` is put wherever text of the data stands."""
    rng = Random(7)
    removals = [*REMOVALS, *([hostile] if hostile else [])]
    fields = ["id", "state", "remove", "seed", "score"]
    rows: list[list[Any]] = [
        [f"{number:012x}", "done", remove, seed, round(70 + rng.gauss(0, 4), 2)]
        for number, (remove, seed) in enumerate(product(removals, range(SEEDS)))
    ]
    rows[4][1], rows[4][-1], rows[-1][1], rows[-1][-1] = "failed", None, "left", None
    trials = [dict(zip(fields, row, strict=True)) for row in rows]
    records = {
        trial["id"]: _record(trial, rng, hostile) for trial in trials if trial["state"] != "left"
    }
    return {
        "format": 1,
        "name": name + hostile,
        "about": "Half of the heads are cut before fine-tuning; what is lost in languages that "
        "were never trained on? " + hostile,
        "recipe": {"axes": {"remove": removals, "seed": list(range(SEEDS))}},
        "models": ["world/encoder" + hostile],
        "versions": {
            "deadhead": "0.1",
            "torch": "2.13.0",
            "transformers": "5.22.2",
            "device": "cpu",
        },
        "data": {
            f"{lang}/{split}": f"{rng.getrandbits(48):012x}"
            for lang in LANGUAGES
            for split in ("train", "test")
        },
        "damaged": [],
        "progress": {
            "total": len(trials),
            "done": len(trials) - 2,
            "failed": 1,
            "left": 1,
            "running": 1,
        },
        "findings": [
            "Removing the lowest half of the heads costs 0.4 points on average over 3 languages, "
            "less than the spread of 0.9 over seeds.",
            "Random halves cost 2.1 points, five times as much.",
            "Arabic gains 5.3 points when the lowest quarter is removed." + hostile,
        ],
        "tables": [_table(removals, trials, rng, hostile)],
        "figures": [
            _figure(removals, trials, hostile),
            {**_figure(removals, trials, hostile), "id": "figure-2-scores"},
        ],
        "lead": "figure-1",
        "order": ["tables", "figures"],
        "claims": _claims(trials, hostile),
        "layout": {"encoder": [WIDTH] * LAYERS},
        "maps": _maps(rng, hostile),
        "trials": {"fields": fields, "rows": rows},
        "records": records,
        "heads": {
            head: {
                "rankings": {"gradient, en": rng.random(), "lrp, en": rng.random()},
                "measures": {
                    "entropy": {"before": 1 + rng.random(), "after": 0.5 + rng.random()},
                    "weights": {"after": rng.random() / 100},
                },
                "removed": sum(head in record["removed"] for record in records.values()),
                "effect": {lang: round(rng.gauss(0, 1), 3) for lang in LANGUAGES},
            }
            for head in HEADS
        },
    }


def _record(trial, rng, hostile):
    failed = trial["state"] == "failed"
    amount = {"25": 12, "50": 24}.get(trial["remove"][-2:], 0)
    return {
        "trial": {
            "model": "world/encoder" + hostile,
            "remove": trial["remove"],
            "seed": trial["seed"],
        },
        "removed": sorted(rng.sample(HEADS, amount)),
        "metrics": {}
        if failed
        else {f"{lang}/test/accuracy": round(0.7 + rng.gauss(0, 0.04), 4) for lang in LANGUAGES},
        "epochs": [
            {
                "step": "finetune",
                "number": n + 1,
                "loss": 1 / (n + 1),
                "en/dev/accuracy": 0.6 + 0.05 * n,
            }
            for n in range(4)
        ],
        "cost": {"finetune s": 12.5, "parameters before": 1_000_000, "parameters after": 900_000},
        "details": {"note": hostile},
        "error": "Traceback (most recent call last):\nRuntimeError: out of memory" + hostile
        if failed
        else None,
        "sample": _sample(hostile),
    }


def _sample(hostile):
    odd = [hostile] if hostile else []
    return [
        {
            "lang": "en",
            "split": "test",
            "tokens": [*ENGLISH, *odd],
            "gold": ["PROPN", "VERB", "DET", "NOUN", "PUNCT", *odd],
            "predicted": ["PROPN", "VERB", "DET", "VERB", "PUNCT", *("X" for _ in odd)],
            "errors": 1,
        },
        {
            "lang": "ar",
            "split": "test",
            "tokens": ARABIC,
            "gold": ["VERB", "PROPN", "NOUN", "ADJ"],
            "predicted": ["VERB", "NOUN", "NOUN", "ADJ"],
            "errors": 1,
        },
        {
            "lang": "de",
            "split": "test",
            "text": "Der Hund schläft.",
            "second": "Ein Tier ruht.",
            "gold": "entailment",
            "predicted": "neutral" + hostile,
            "errors": 1,
        },
    ]


def _table(removals, trials, rng, hostile):
    def cell(remove):
        mine = [t for t in trials if t["remove"] == remove]
        apart = rng.gauss(
            0, 2
        )  # this language against the mean over languages, which is the score of a trial
        scored = [(t, round(t["score"] + apart, 4)) for t in mine if t["score"] is not None]
        scores = [score for _, score in scored]
        ours = round(sum(scores) / len(scores), 4)
        mark = None if remove == "none" else "better" if ours > 70 else "worse"
        state = "done" if len(scores) == len(mine) else "partial"
        return {
            "ours": ours,
            "spread": 0.9,
            "n": len(scores),
            "published": 70.0,
            "state": state,
            "mark": mark,
            "numbers": [
                [score, f"seed {t['seed']}", [[t["id"], "", score]]] for t, score in scored
            ],
            "trials": [t["id"] for t in mine],
        }

    cells = [[cell(remove) for _ in LANGUAGES] for remove in removals]
    none = {**dict.fromkeys(cells[0][0]), "n": 0, "numbers": [], "trials": []}
    cells[3][3] = {**none, "state": "missing"}
    cells[1][2] = {**none, "state": "failed", "published": 68.0, "trials": [trials[4]["id"]]}
    return {
        "id": "table-1-scores",
        "title": "Accuracy after removing heads" + hostile,
        "note": "Fine-tuned on English alone.",
        "test": "Coloured: differs from the unpruned model. Tested: 18 of 20 cells; 3 differ.",
        "row_names": ["heads removed"],
        "column_names": ["setting", "language"],
        "rows": [[remove] for remove in removals],
        "columns": [["trained on" if lang == "en" else "zero-shot", lang] for lang in LANGUAGES],
        "cells": cells,
        "decimals": 2,
    }


def _figure(removals, trials, hostile):
    values = [
        {"remove": t["remove"], "score": t["score"], "head": HEADS[n % len(HEADS)]}
        for n, t in enumerate(trials)
        if t["score"]
    ]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.1.0.json",
        "title": "Scores" + hostile,
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": {"field": "remove", "type": "nominal", "axis": {"labelAngle": 0}},
            "y": {"field": "score", "type": "quantitative", "scale": {"zero": False}},
            "tooltip": [{"field": "remove"}, {"field": "score"}],
        },
        "width": 420,
        "height": 220,
    }
    return {
        "id": "figure-1",
        "title": "Score by removal" + hostile,
        "note": "One point for each trial.",
        "kind": "curve",
        "spec": spec,
        "extra": False,
    }


def _claims(trials, hostile):
    margins = (0.6, -0.3, -1.2, None, None)
    return [
        {
            "id": f"claim-{n}",
            "paper": "a paper",
            "statement": f"Statement {n} about heads." + hostile,
            "verdict": verdict,
            "margin": margin,
            "numbers": "0.4 points lost, 1.0 allowed",
            "strength": "3 seeds",
            "trials": [t["id"] for t in trials[: 4 - n]] if margin is not None else [],
        }
        for n, (verdict, margin) in enumerate(zip(VERDICTS, margins, strict=True))
    ]


def _maps(rng, hostile):
    titles = {
        "Ranking: gradient, en": "ranking",
        "Ranking: lrp, en": "ranking",
        "Attention entropy before training": "entropy",
        "Change of weights by training": "weights",
    }
    scores: list[dict[str, float]] = [{h: round(rng.random(), 5) for h in HEADS} for _ in titles]
    del scores[2][HEADS[0]]
    scores.append({h: rng.randint(1, 9) for h in HEADS[::2]})
    titles["Times removed, in 12 trials"] = "removed"
    return [
        {
            "id": f"map-{n}",
            "title": title + hostile,
            "what": what,
            "trial": None,
            "scores": of_heads,
        }
        for n, ((title, what), of_heads) in enumerate(zip(titles.items(), scores, strict=True))
    ]
