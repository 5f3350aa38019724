"""Compute numbers of rankers.md from its records; a comment has what a line prints.

Run it in a folder with these studies, unpacked from docs/results:
rankers, rankers-cut.
"""

from itertools import combinations
from statistics import fmean

from deadhead.results.statistics import overlap, spearman
from deadhead.studies import read, summaries

records = [read("rankers", trial) for trial in summaries("rankers")]
found = {
    (one.trial.get("rank")["method"], one.trial.get("source")): one.details["ranking"]["scores"]
    for one in records
}
languages, heads = ("en", "nl", "ar", "zh", "ja"), list(found["ablation", "en"])
methods = ("shapley", "l0", "taylor", "gradient", "lrp", "entropy", "confidence", "ablation")


def rho(one, other):
    return spearman([one[head] for head in heads], [other[head] for head in heads]).rho


near = {
    method: [rho(found[method, lang], found["ablation", lang]) for lang in languages]
    for method in methods
}
print(
    [round(fmean(near[method]), 2) for method in methods]
)  # [0.41, 0.35, 0.34, 0.2, 0.2, 0.16, 0.1, 1.0]
ends = {
    method: [overlap(found[method, lang], found["ablation", lang]) for lang in languages]
    for method in methods
}
print(
    [round(fmean(one.lowest for one in ends[method]), 1) for method in methods]
)  # [1.4, 0.4, 0.4, 1.4, 1.4, 1.8, 1.8, 12.0]
print(
    [round(fmean(one.highest for one in ends[method]), 1) for method in methods]
)  # [8.2, 7.4, 8.0, 6.6, 4.4, 5.6, 4.8, 12.0]
effects = [effect for lang in languages for effect in found["ablation", lang].values()]
print(
    sum(abs(effect) < 0.001 for effect in effects),
    sum(effect < 0 for effect in effects),
    round(max(effects), 3),
)  # 582 267 0.048
pairs = list(combinations(languages, 2))
alike = {
    method: [rho(found[method, one], found[method, other]) for one, other in pairs]
    for method in methods
}
print(
    [round(fmean(alike[method]), 2) for method in methods]
)  # [0.43, 0.66, 0.92, 0.71, 0.69, 0.86, 0.84, 0.28]
sixth = [overlap(found["gradient", one], found["gradient", other], 24) for one, other in pairs]
print(
    round(fmean(one.highest for one in sixth) / 24, 2),
    round(fmean(one.lowest for one in sixth) / 24, 2),
)  # 0.58 0.7

cuts, again = {}, {}
for trial, one in summaries("rankers-cut").items():
    lang, seed, ranked = one.trial.get("source"), one.trial.get("seed"), one.trial.get("rank") or {}
    way, k = next(iter((one.trial.get("remove") or {"none": 0}).items()))
    if one.metrics:
        cuts.setdefault((ranked.get("method", way), k, lang, seed), []).append(
            100 * one.metrics[f"{lang}/test/micro_f1"]
        )
    else:
        again[ranked["method"], lang, ranked["split"]] = read("rankers-cut", trial).details[
            "ranking"
        ]["scores"]


def lost(way, k, seeds=(42, 43)):
    taggers = [(lang, seed) for lang in ("en", "zh") for seed in seeds]
    return round(
        fmean(fmean(cuts[way, k, *tagger]) - cuts["none", 0, *tagger][0] for tagger in taggers), 2
    )


print([lost("ablation", k) for k in (12, 36, 72)])  # [-0.43, -1.45, -3.71]
print([lost("random_k", k) for k in (12, 36, 72)])  # [-0.48, -1.22, -5.46]
print([lost("taylor", k) for k in (12, 36, 72)])  # [-0.04, -0.43, -1.13]
print([lost("gradient", k) for k in (12, 36, 72)])  # [-0.07, -0.28, -1.23]
print(
    [lost(way, 72, [42]) for way in ("l0", "lrp", "entropy", "confidence")]
)  # [-0.9, -1.38, -2.82, -2.62]
print([lost(way, 36, [42]) for way in ("ablation", "random_k", "taylor")])  # [-1.31, -1.11, -0.51]
print(
    [
        round(rho(again["ablation", lang, "dev"], again["ablation", lang, "test"]), 2)
        for lang in ("en", "zh")
    ]
)  # [0.41, 0.65]
