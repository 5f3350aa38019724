"""Compute numbers of prunability.md from its records; a comment has what a line prints.

Run it in a folder with these studies, unpacked from docs/results:
pos-prunability, nli, nli-rates, nli-layers, sst2, sst2-slow.
"""

from math import log

import numpy as np
import pandas as pd

from deadhead.results import frame
from deadhead.results.statistics import spearman
from deadhead.studies import read

trials = (
    frame("pos-prunability").drop_duplicates("id").set_index("remove").filter(like="/test/micro_f1")
)
table = 100 * trials.rename(columns=lambda name: name.split("/")[0]).groupby(level=0).mean()
others = [language for language in table.columns if language != "en"]
print(
    len(others),
    *(round(table.loc[name, others].mean(), 1) for name in ("none", "random 50", "random 90")),
)  # 13 62.4 58.3 44.6
print(
    *(round(table.loc[name, others].mean(), 1) for name in ("layers top 4", "layers bottom 4"))
)  # 62.2 52.4
runs = frame("pos-prunability").drop_duplicates("id").set_index("remove")
last, first = (
    100 * runs[[f"{language}/{split}/micro_f1" for language in table.columns]].to_numpy()
    for split in ("test", "test@1")
)
is_other, is_pruned = table.columns != "en", runs.index != "none"
own = last[~is_pruned & runs["seed"].isna()][0][is_other].mean()  # the seed of all prunings
names = ("random 50", "random 90", "layers top 4", "layers bottom 4")
print(
    round(own, 1), *(round(table.loc[name, others].mean() - own, 1) for name in names)
)  # 62.9 -4.6 -18.3 -0.7 -10.5
early = 100 * (first / last)[is_pruned].mean(axis=0)  # after one epoch: all languages, English
print(round(early.mean(), 1), round(early[~is_other][0], 1))  # 99.3 97.7
whole = table.loc["none", others]
half, most = (
    spearman([*whole], [*(1 - table.loc[f"random {share}", others] / whole)]) for share in (50, 90)
)
print(
    round(half.rho, 2), round(half.p, 2), round(most.rho, 2), round(most.p, 2)
)  # 0.58 0.04 0.68 0.01


def sentiment(
    study,
):  # loss at 50 and 90 %; of pruned trainings that learnt: how many, their score after one epoch in % of the last
    runs = frame(study).drop_duplicates("id").set_index("remove")
    scores = 100 * runs["en/dev/accuracy"]
    own = scores[(runs.index == "none") & runs["seed"].isna()].iloc[0]  # the seed of all prunings
    lost = [round(scores[name].mean() - own, 1) for name in ("random 50", "random 90")]
    learnt = runs[(scores > 60) & (runs.index != "none")]
    early = round(100 * (learnt["en/dev@1/accuracy"] / learnt["en/dev/accuracy"]).mean(), 1)
    return scores, round(own, 1), *lost, len(learnt), early


def trend_of(
    table, name
):  # over trainings unpruned or with heads drawn: rho of the share cut and the score
    drawn = table[~table.index.str.startswith("layers")]
    return spearman(
        [float(cut.split()[-1]) if cut != "none" else 0 for cut in drawn.index], [*drawn[name]]
    )


(quick, *numbers), (slow, *others) = sentiment("sst2"), sentiment("sst2-slow")
print(
    *numbers, *quick[quick < 60].index.str.removeprefix("layers ")
)  # 82.9 -0.3 -2.1 46 96.2 top 1 top 4 top 8
print(
    *others, *slow[slow < 60].index.str.removeprefix("layers ")
)  # 79.9 -0.0 -0.6 47 91.5 top 6 top 8
trend = trend_of(slow.to_frame("en"), "en")
print(trend.n, round(trend.rho, 2), round(trend.p, 2))  # 30 -0.08 0.69


def inference(study):
    runs = frame(study).drop_duplicates("id").set_index("remove")
    table = 100 * runs.filter(like="/dev/accuracy").rename(columns=lambda name: name.split("/")[0])
    table["others"] = table.drop(columns="en").mean(axis=1)
    records = [read(study, trial) for trial in runs["id"]]
    table["learnt"] = [record.epochs[-1]["loss"] < 0.9 * log(3) for record in records]
    table["seed"] = [record.trial.get("seed") for record in records]
    table["rate"] = [record.trial.get("finetune")["rate"] for record in records]
    return table


nli = inference("nli")
unpruned, layers, learnt = nli.loc["none"], nli[nli.index.str.startswith("layers")], nli[nli.learnt]
print(
    len(learnt), len(nli), *unpruned.sort_values("seed")["en"].round(1)
)  # 36 47 58.6 40.6 59.1 54.4 43.7 59.7
print(unpruned.learnt.sum(), layers.learnt.sum())  # 4 8
first = nli[nli.seed < 3]  # those of the page: seeds 3 to 5 came after these had been seen
kept = first[first.learnt].groupby(level=0)[["en", "others"]].mean()
print(len(first), first.learnt.sum(), first.loc["none"].learnt.sum())  # 44 34 2
print(kept.loc["none"].round(1).tolist())  # [58.9, 44.2]
above_chance = kept - 100 / 3
print(
    (100 * above_chance.loc[["random 50", "random 90"]] / above_chance.loc["none"])
    .round()
    .astype(int)
    .values.tolist()
)  # [[66, 47], [56, 39]]
print(
    *layers[~layers.learnt].index.str.removeprefix("layers "), sep=", "
)  # top 4, top 6, top 8, bottom 4, bottom 6, bottom 8
tried = inference("nli-rates")
print(tried.groupby("rate").learnt.sum().to_dict())  # {5e-05: 3, 0.0001: 1, 0.0002: 0}
again = tried[tried.rate == 5e-5].sort_values(
    "seed"
)  # top 4 with seed 0, unpruned with seeds 1 and 2
print(*again["en"].round(1), nli.loc["layers top 4", "en"].round(1))  # 50.6 60.0 59.4 37.7

languages = [name for name in nli.columns if len(name) == 2]
reached = first[first.learnt].loc["none", languages].mean() - 100 / 3
print(reached["en"].round(1), reached["tr"].round(1), reached["vi"].round(1))  # 25.5 8.8 13.4
whole = unpruned[unpruned.learnt][languages]
reach = 3.182 * whole.std() / 2  # Student's t for four values
above = [
    f"{name} {whole[name].mean() - 100 / 3:.1f} ±{reach[name]:.1f}" for name in ("en", "vi", "tr")
]
print(
    *above, bool((whole.mean() - reach > 100 / 3).all())
)  # en 24.6 ±3.8 vi 13.6 ±2.4 tr 9.3 ±1.1 True
mean = learnt.groupby(level=0)[["en", "others"]].mean() - 100 / 3
print(
    (100 * mean.loc[["random 50", "random 90"]] / mean.loc["none"])
    .round()
    .astype(int)
    .values.tolist()
)  # [[68, 47], [58, 38]]
trends = [trend_of(table, name) for table in (nli, learnt) for name in ("en", "others")]
print(
    *(trend.n for trend in trends), *(round(trend.rho, 2) for trend in trends)
)  # 33 33 28 28 -0.37 -0.69 -0.56 -0.73
print(*(f"{trend.p:.2g}" for trend in trends))  # 0.035 1e-05 0.0023 1e-05
drawn = learnt[~learnt.index.str.startswith("layers")]
shares = [float(cut.split()[-1]) if cut != "none" else 0 for cut in drawn.index]
ranks = pd.DataFrame({"share": shares, "others": [*drawn.others], "en": [*drawn.en]}).rank()
inverse = np.linalg.inv(
    ranks.corr()
)  # partial correlation: others with the share, at equal scores in English
print(round(-inverse[0, 1] / (inverse[0, 0] * inverse[1, 1]) ** 0.5, 2))  # -0.57
print(
    nli.loc[["layers top 2", "layers bottom 2"], ["en", "others"]].round(1).values.tolist()
)  # [[47.9, 41.1], [49.0, 35.8]]

more = inference("nli-layers")
print(
    *more.groupby(level=0)["en"].mean().round(1)[["none", "layers middle 6", "layers middle 8"]]
)  # 45.2 53.0 53.3
learnt_of = more.groupby(level=0).learnt.sum()
print(
    more.learnt.sum(), *(f"{name[7:]}: {count}" for name, count in learnt_of.items() if count)
)  # 9 middle 4: 2 middle 6: 3 middle 8: 3 top 4: 1
