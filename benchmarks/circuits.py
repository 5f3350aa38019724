"""Which estimate finds the heads behind a behaviour, measured on heads kept in pairs it never saw.

    python benchmarks/circuits.py --model FOLDER --task names [--json FILE]
    python benchmarks/circuits.py --model FOLDER --task agreement [--json FILE]

`names` are indirect objects for a decoder, `agreement` is "is" or "are" at the mask of a masked
language model: the verb agrees with the noun before it. Sentences come from the names, places and
templates below. Only pairs that the model solves count: both sentences of a pair, each with its own
answer.

Every ranking of heads comes from the same first pairs. On the others, the highest heads by size of
their score stay, and the rest give what they give in the corrupt run. The intervals draw the pairs
again, the same for both rankings of a difference. circuits_lens.py compares the edges.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import machine
import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from deadhead import captured, discover, edge_effects, faithfulness, gated, patch_effects, rank
from deadhead.layout import Head

FRACTIONS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
STEPS, AT_ONCE, RESAMPLES = 5, 16, 2000

NAMES = [
    "Anna",
    "Paul",
    "Lucy",
    "Mark",
    "Jane",
    "Luke",
    "Mary",
    "John",
    "Sarah",
    "David",
    "Emma",
    "James",
    "Laura",
    "Peter",
    "Alice",
    "Tom",
]
PLACES = ["garden", "kitchen", "station", "office", "library", "market", "museum", "hotel"]
THINGS = ["book", "key", "letter", "ball", "map", "ticket", "cup", "ring"]
TEMPLATES = (
    "When {a} and {b} left the {place}, {giver} gave a {thing} to",
    "{a} met {b} at the {place}, and {giver} handed a {thing} to",
    "After {a} and {b} reached the {place}, {giver} showed a {thing} to",
    "{a} saw {b} in the {place}, so {giver} threw a {thing} to",
)
SUBJECTS = [
    "book/books",
    "house/houses",
    "song/songs",
    "city/cities",
    "player/players",
    "school/schools",
]
SUBJECTS += [
    "road/roads",
    "film/films",
    "church/churches",
    "student/students",
    "team/teams",
    "game/games",
]
SUBJECTS += ["man/men", "woman/women", "child/children", "teacher/teachers", "village/villages"]
TOWNS = ["London", "Berlin", "Paris", "Rome", "Madrid", "Vienna"]
VERBS = (("is", "are"), ("was", "were"))
ENDINGS = ("very old", "well known", "in the city", "still here")

Batch = dict[str, Tensor]
Pair = tuple[str, str, str, str]  # clean sentence, corrupt sentence, answer to clean, to corrupt
Order = list[Head]


def names() -> Iterator[Pair]:
    """The giver is the first or the second name; the other one receives."""
    for a, b in itertools.permutations(NAMES, 2):
        for template, place, thing in itertools.product(TEMPLATES, PLACES, THINGS):
            for giver, other in ((a, b), (b, a)):
                rest = {"a": a, "b": b, "place": place, "thing": thing}
                texts = (template.format(giver=name, **rest) for name in (giver, other))
                yield (*texts, f" {other}", f" {giver}")


def agreement() -> Iterator[Pair]:
    """The subjects of both sentences differ in number, and have equally many tokens."""
    for one, two in itertools.permutations((word.split("/") for word in SUBJECTS), 2):
        for town, end, verbs, plural in itertools.product(TOWNS, ENDINGS, VERBS, (0, 1)):
            subjects = one[plural], two[1 - plural]
            texts = (f"In {town} the {subject} [MASK] {end} ." for subject in subjects)
            yield (*texts, verbs[plural], verbs[1 - plural])


TASKS = {"names": names, "agreement": agreement}


def candidates(task: str, count: int, tokenizer: Any) -> list[Pair]:
    """Those of this many pairs, drawn by a fixed seed, whose sentences have one length."""
    drawn = Random(0).sample([*TASKS[task]()], count)
    return [pair for pair in drawn if len(Pairs([pair], tokenizer))]


class Pairs:
    """Batches of clean and corrupt sentences of one length.

    `labels` has the answer, the wrong answer, and the position of the prediction.
    """

    def __init__(self, pairs: Sequence[Pair], tokenizer: Any):
        by_length: dict[int, list[tuple[list[int], list[int], list[int]]]] = {}
        for one, two, answer, wrong in pairs:
            first, second = (tokenizer(text)["input_ids"] for text in (one, two))
            tokens = [
                tokenizer(word, add_special_tokens=False)["input_ids"] for word in (answer, wrong)
            ]
            mask = tokenizer.mask_token_id
            at = first.index(mask) if mask in first else len(first) - 1
            same_size = len(first) == len(second) and (mask is None or second[at] == mask)
            if same_size and [len(token) for token in tokens] == [1, 1]:
                row = (first, second, [tokens[0][0], tokens[1][0], at])
                by_length.setdefault(len(first), []).append(row)
        self.clean: list[Batch] = []
        self.corrupt: list[Batch] = []
        for rows in by_length.values():
            for start in range(0, len(rows), AT_ONCE):
                first, second, labels = zip(*rows[start : start + AT_ONCE], strict=True)
                answers = torch.tensor(labels)
                self.clean.append({"input_ids": torch.tensor(first), "labels": answers})
                self.corrupt.append({"input_ids": torch.tensor(second), "labels": answers})

    def __len__(self) -> int:
        return sum(len(batch["input_ids"]) for batch in self.clean)


def metric(outputs: Any, batch: Batch) -> Tensor:
    """How much each example prefers the answer of the clean sentence."""
    answer, wrong, at = batch["labels"].T
    row = torch.arange(len(at), device=at.device)
    logits = outputs.logits[row, at]
    return logits[row, answer] - logits[row, wrong]


def loss(outputs: Any, batch: Batch) -> Tensor:
    return -metric(outputs, batch)


@torch.no_grad()
def solved(model: Any, pairs: Sequence[Pair], tokenizer: Any) -> list[Pair]:
    """The pairs of which the model answers both sentences."""
    right = []
    for pair in pairs:
        both = Pairs([pair], tokenizer)
        batch = {n: torch.cat([both.clean[0][n], both.corrupt[0][n]]) for n in both.clean[0]}
        clean, corrupt = metric(model(batch["input_ids"]), batch).tolist()
        if clean > 0 > corrupt:
            right.append(pair)
    return right


def outgoing(effects: Any) -> dict[Head, float]:
    """The sum of the edges that leave each head: the effect of all that it adds."""
    sums = np.nansum(effects.matrix, axis=0)
    values = zip(effects.sources, sums, strict=True)
    return {Head.parse(n): -float(v) for n, v in values if n.rpartition(".")[2].isdigit()}


def rankings(model: Any, pairs: Pairs) -> Iterator[tuple[str, Callable[[], dict[Head, float]]]]:
    """The name of each ranking, and how to get the score of each head."""
    both, quiet = (pairs.clean, pairs.corrupt), {"progress": False}

    def exact() -> dict[Head, float]:
        effects = patch_effects(model, *both, metric, into="clean", **quiet)
        return {head: -value for head, value in effects.by_head().items()}

    def attribution(**options: Any) -> dict[Head, float]:
        scores = rank(
            model, pairs.clean, "attribution", loss=loss, corrupt=pairs.corrupt, closed=(),
            **quiet, **options,
        )  # fmt: skip
        return scores.scores_for(discover(model))

    yield "exact", exact
    yield "attribution", attribution
    yield "integrated attribution", lambda: attribution(steps=STEPS)
    yield "EAP", lambda: outgoing(edge_effects(model, *both, metric, **quiet))
    yield "EAP-IG", lambda: outgoing(edge_effects(model, *both, metric, steps=STEPS, **quiet))


def by_size(scores: dict[Head, float]) -> Order:
    return sorted(scores, key=lambda head: -abs(scores[head]))


class Kept:
    """The metric of each pair with some heads kept and the others corrupt."""

    def __init__(self, model: Any, pairs: Pairs):
        self.model, self.pairs, self.heads = model, pairs, [*discover(model)]
        self.known: dict[frozenset[Head], np.ndarray] = {}
        self.fills = []
        for corrupt in pairs.corrupt:
            with torch.no_grad(), captured(model) as fill:
                model(corrupt["input_ids"])
            self.fills.append(fill)

    @torch.no_grad()
    def __call__(self, kept: Order) -> np.ndarray:
        chosen = frozenset(kept)
        if chosen not in self.known:
            closed, values = [head for head in self.heads if head not in chosen], []
            for clean, fill in zip(self.pairs.clean, self.fills, strict=True):
                with gated(self.model, closed=closed, fill=fill):
                    values.append(metric(self.model(clean["input_ids"]), clean))
            self.known[chosen] = torch.cat(values).double().numpy()
        return self.known[chosen]

    def curve(self, order: Order) -> np.ndarray:
        """The metric of each fraction and pair."""
        return np.stack([self(order[: round(f * len(order))]) for f in FRACTIONS])


def areas(values: np.ndarray) -> np.ndarray:
    """CPR and CMD of metrics: fractions x pairs, or draws x fractions x pairs."""
    means = values.mean(-1)
    empty, full = means[..., :1], means[..., -1:]
    share = (means - empty) / (full - empty)
    both = (share, abs(1 - share))
    return np.stack([np.trapezoid(each, FRACTIONS, axis=-1) for each in both])


def compared(curves: dict[str, np.ndarray], to: str) -> dict[str, Any]:
    """CPR and CMD of each ranking, and its difference to one of them with a 95 % interval."""
    count = curves[to].shape[-1]
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))

    def of_draws(curve: np.ndarray) -> np.ndarray:
        return areas(np.moveaxis(curve[:, drawn], 0, 1))

    base, rows = of_draws(curves[to]), {}
    for name, curve in curves.items():
        apart = areas(curve) - areas(curves[to])
        low, high = np.quantile(of_draws(curve) - base, [0.025, 0.975], axis=-1)
        means = curve.mean(-1)
        rows[name] = {
            "faithfulness": ((means - means[0]) / (means[-1] - means[0])).round(4).tolist(),
            **{
                measure: {
                    "value": round(float(areas(curve)[n]), 4),
                    "less exact": [round(float(v), 4) for v in (apart[n], low[n], high[n])],
                }
                for n, measure in enumerate(("CPR", "CMD"))
            },
        }
    return rows


def check(model: Any, pairs: Pairs, scores: dict[Head, float]) -> float:
    """How far the curve here is from that of `faithfulness`, on the first batch."""
    few = Pairs([], None)
    few.clean, few.corrupt = pairs.clean[:1], pairs.corrupt[:1]
    options: dict[str, Any] = {"fractions": FRACTIONS, "random": 0, "progress": False}
    theirs = faithfulness(model, scores, few.clean, few.corrupt, metric, **options)
    means = Kept(model, few).curve(by_size(scores)).mean(-1)
    ours = (means - means[0]) / (means[-1] - means[0])
    return float(abs(ours - np.array(theirs.curve)).max())


def write(results: dict[str, Any], file: Path | None) -> None:
    text = json.dumps(results, indent=1)
    print(text, flush=True)
    if file:
        file.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--candidates", type=int, default=600, help="pairs that are generated")
    parser.add_argument("--rank-on", type=int, default=24, help="pairs for the rankings")
    parser.add_argument(
        "--pairs", type=int, default=200, help="solved pairs at most to keep heads on"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kind = AutoModelForCausalLM if options.task == "names" else AutoModelForMaskedLM
    model = kind.from_pretrained(options.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    fit = candidates(options.task, options.candidates, tokenizer)
    right = solved(model, fit, tokenizer)
    print(f"{len(right)} of {len(fit)} pairs solved", flush=True)
    cut = options.rank_on
    first, rest = (Pairs(p, tokenizer) for p in (right[:cut], right[cut : cut + options.pairs]))
    scores, seconds, curves = {}, {}, {}
    kept = Kept(model, rest)
    for name, measure in rankings(model, first):
        start = machine.now("cpu")
        scores[name] = measure()
        seconds[name] = round(machine.now("cpu") - start, 2)
        print(f"{name:24} {seconds[name]:8.1f} s", flush=True)
    heads = [*scores["exact"]]
    difference = check(model, rest, scores["exact"])
    for name, by_head in scores.items():
        curves[name] = kept.curve(by_size(by_head))
        print(name, areas(curves[name]), flush=True)
    curves["random"] = kept.curve(Random(0).sample(heads, len(heads)))
    table = np.array([[by_head[head] for head in heads] for by_head in scores.values()])
    results = {
        "machine": machine.torch_machine("cpu"),
        "model": options.model.name,
        "task": options.task,
        "generated": len(fit),
        "solved": len(right),
        "ranked on": len(first),
        "kept on": len(rest),
        "fractions": FRACTIONS,
        "seconds of processor": seconds,
        "correlation with exact": dict(
            zip(scores, np.corrcoef(table)[0].round(4).tolist(), strict=True)
        ),
        "highest": {name: [str(head) for head in by_size(s)[:8]] for name, s in scores.items()},
        "largest difference to faithfulness": difference,
        "rankings": compared(curves, "exact"),
    }
    write(results, options.json)


if __name__ == "__main__":
    main()
