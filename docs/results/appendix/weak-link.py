"""Compute numbers of weak-link.md from its records; a comment has what a line prints.

Run it in a folder with these studies, unpacked from docs/results:
sst2, sst2-slow, sst2-rates, sst2-layers, pos-prunability, multi30k.
"""

import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import permutation_test

from deadhead.papers.claims import check
from deadhead.results import frame
from deadhead.results.statistics import spearman

trials = frame("multi30k").drop_duplicates("id").rename(columns={"en-de/test/bleu": "bleu"})
bleu = {name: group.to_numpy() for name, group in trials.groupby("remove").bleu}
shown = [bleu[name] for name in ("none", "random 60 per=block", "random 87 per=layer")]
print(
    *(f"{some.mean():.2f} ±{some.std(ddof=1):.2f}" for some in shown)
)  # 38.30 ±0.48 37.26 ±0.05 34.46 ±0.81
own = trials[(trials["remove"] == "none") & trials["seed"].isna()].bleu.iloc[0]  # their seed
names = ("random 25 per=block", "random 50 per=block", "random 87 per=layer")
print(
    f"{own:.2f}", *(f"{bleu[name].mean() - own:+.2f}" for name in names)
)  # 37.92 -0.01 -0.43 -3.46

trials["left"] = (
    144 - (trials["cost parameters"] - trials["cost parameters after"]) / 32864
)  # weights of one head
cut = trials[trials["remove"] != "none"].assign(budget=lambda some: (some.left / 3).round())
number, way = (cut.groupby(name).bleu.transform("mean") for name in ("budget", "remove"))
parts = [
    ((one - other) ** 2).sum()
    for one, other in ((number, cut.bleu.mean()), (way, number), (cut.bleu, way))
]
print(*(f"{part / sum(parts):.1%}" for part in parts))  # 90.4% 3.6% 6.0%

ways = (
    "888444",
    "777322",
    "666222",
    "555211",
    "333111",
)  # heads kept in the encoder; it identifies the others
more, fewer = (
    [next(bleu[name] for name in bleu if name[10:].startswith(one[::order])) for one in ways]
    for order in (1, -1)
)
print(
    *(f"{one.mean() - other.mean():+.2f}" for one, other in zip(more, fewer, strict=True))
)  # -0.09 +0.15 +0.19 +0.18 -0.04
triples = [bleu[f"per_block {kept}"] for kept in ("5/9/12", "9/5/12", "12/9/5")]
found = permutation_test(
    triples, lambda *some: np.var([one.mean() for one in some]), alternative="greater"
)
print(
    *(f"{one.mean():.1f}" for one in triples), f"p = {found.pvalue:.3f}"
)  # 34.8 34.6 35.7 p = 0.021


names = ("sst2", "sst2-slow", "sst2-rates", "pos-prunability")
tables = [frame(study).drop_duplicates("id").set_index("remove") for study in names]
fast, slow, rates = (100 * table["en/dev/accuracy"] for table in tables[:3])
pos = 100 * tables[3]["en/test/micro_f1"]


def trend_of(scores, most):
    drawn = {
        name: float(name.split()[-1]) if name != "none" else 0.0
        for name in scores.index
        if not name.startswith("layers")
    }
    some = scores[[drawn.get(name, 100) <= most for name in scores.index]]
    found = spearman([drawn[name] for name in some.index], [*some])
    return (
        *(round(scores[name].mean(), 1) for name in ("none", "random 50", "random 90")),
        len(some),
        round(found.rho, 2),
    )


print(*trend_of(fast, 90), trend_of(fast, 50)[-1])  # 83.4 82.6 80.8 30 -0.6 -0.16
print(*trend_of(slow, 90), trend_of(slow, 50)[-1])  # 80.0 79.9 79.3 30 -0.08 0.03
print(*trend_of(pos, 90), trend_of(pos, 50)[-1])  # 94.2 93.7 92.3 30 -0.92 -0.75
alone = [scores.index.str.fullmatch(r"layers top \d") for scores in (fast, slow, rates)]
tops = [scores[top] for scores, top in zip((fast, slow, rates), alone, strict=True)]
others = [scores[~top] for scores, top in zip((fast, slow, rates), alone, strict=True)]
failed = [
    ", ".join(f"{sum(scores < 60)} of {len(scores)}" for scores in some) for some in (tops, others)
]
print(*failed, sep="; ")  # 3 of 6, 2 of 6, 4 of 6; 0 of 46, 0 of 46, 0 of 2
print(
    *(", ".join(scores[scores < 60].index.str[7:]) for scores in tops[:2]), sep="; "
)  # top 1, top 4, top 8; top 6, top 8

printed = pd.concat(
    pd.read_csv(files("deadhead") / f"papers/weak_link/published/table{number}.csv")
    for number in (5, 6)
)
bert = (
    printed[(printed.task == "sst2") & (printed["remove"] != "none")]
    .drop_duplicates("remove")
    .set_index("remove")
    .value
)


def agree(one, other):
    both = [
        name
        for name in one.index
        if name.startswith("layers") and min(one[name], other.get(name, 0)) > 60
    ]
    return len(both), round(spearman([*one[both]], [*other[both]]).rho, 2)


print(agree(fast, bert), agree(fast, pos))  # (16, 0.71) (12, 0.93)
print(agree(fast, slow), agree(slow, bert), agree(slow, pos))  # (18, 0.05) (16, -0.08) (12, 0.22)
learnt = [
    (scores, [name for name in top.index if top[name] > 60])
    for scores, top in zip((fast, slow), tops[:2], strict=True)
]
ends = [
    [scores[name] - scores[name.replace("top", "bottom")] for name in names]
    for scores, names in learnt
]
print(
    *(" ".join(f"{gap:+.1f}" for gap in gaps) for gaps in ends), sep="; "
)  # -0.3 -2.2 +0.2; -2.2 -3.2 -1.4 -3.0


def turned(study, failed):
    before = {one.id: one.verdict for one in check(study)}
    without = Path(shutil.copytree(study, f"{study} without"))
    for trial in failed:
        (without / "records" / f"{trial}.json").unlink()
    after = {one.id: one.verdict for one in check(without)}
    return {name: after[name] for name in before if before[name] != after[name]}


print(turned("sst2", tables[0][fast < 60].id))  # {}
print(*turned("sst2-slow", tables[1][slow < 60].id))  # W8 W11 W12 W13

more = frame("sst2-layers").drop_duplicates("id").set_index("remove")
scores = 100 * more["en/dev/accuracy"]
top = scores.index.str.startswith("layers top")
print(sum(scores[top] < 60), sum(top), sum(scores[~top] < 60), sum(~top))  # 6 18 0 27
by_seed = pd.Series([*scores], [more.index.str.removeprefix("layers "), more.seed])
gaps = {k: by_seed[f"middle {k}"] - by_seed[f"bottom {k}"] for k in (2, 4, 6, 8)}
print(
    *(" ".join(f"{gap:+.1f}" for gap in gaps[k]) for k in gaps), sep="; "
)  # -3.0 -0.6 -2.1; -1.6 -1.1 -2.2; -0.9 -0.5 -1.4; +1.4 +2.2 +0.1
