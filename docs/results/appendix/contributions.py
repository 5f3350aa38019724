"""Compute numbers of contributions.md from its records; a comment has what a line prints.

Run it in a folder with these studies, unpacked from docs/results:
pos-search, pos-search-more, pos-search-seeds, slots-search, ner-search, pos-multilingual, pos-
sources, pos-low-resource.
"""

from statistics import fmean

import numpy as np

from deadhead.results import Study
from deadhead.results.statistics import (
    beyond_luck,
    compare_with_seeds,
    expected_best,
    holm,
    sign_test,
)

names = (
    "pos-search",
    "pos-search-more",
    "pos-multilingual",
    "ner-search",
    "slots-search",
    "pos-low-resource",
)
arms = ("lowest", "random", "highest", "seeds")
whole = {name: Study.open(name).searches for name in names}  # the source's own test set too
studies = {
    name: [pair for pair in found if pair.setting != "mono-lingual"]
    for name, found in whole.items()
}
pos = studies["pos-search"] + studies["pos-search-more"]


def gains(pairs, rule="test", among=arms):
    return [round(fmean(pair.arms[name].picks[rule].gain for pair in pairs), 2) for name in among]


def kept(pairs):  # trainings without the k lowest against those without the k highest
    by = [[pair for pair in pairs if pair.train == one] for one in {pair.train for pair in pairs}]
    ahead = [
        fmean(one.lowest.scores[k] - one.arms["highest"].scores[k] for one in found)
        for found in by
        for k in range(1, 13)
    ]
    return sum(lead > 0 for lead in ahead), sum(lead < 0 for lead in ahead)


def clear(
    one, other
):  # the number of searches, in how many p < 0.05 for one arm ahead of the other, and in how many after Holm
    both = [
        (p, p.arms[one], p.arms[other])
        for found in whole.values()
        for p in found
        if {one, other} <= p.arms.keys()
    ]
    ps = [
        compare_with_seeds(p.unpruned, [*a.scores.values()], [*b.scores.values()]).p
        for p, a, b in both
    ]
    return len(ps), sum(p < 0.05 for p in ps), sum(p < 0.05 for p in holm(ps))


def lead(
    name,
):  # the best of the lowest minus the best of another arm; pairs that share trainings are one group
    both = [p for found in whole.values() for p in found if name in p.arms]
    excess = beyond_luck(
        [p.gain() - p.gain(name) for p in both], [p.lowest.trials[0] for p in both]
    )
    return round(excess.mean, 2), round(excess.p, 3), excess.pairs, excess.groups


def every_sign(name):  # the p of `lead` from all signs of the groups; `lead` draws 20,000
    sums = {}
    for p in (p for found in whole.values() for p in found if name in p.arms):
        group = p.lowest.trials[0]
        sums[group] = sums.get(group, 0) + p.gain() - p.gain(name)
    totals = np.zeros(1)
    for one in sums.values():
        totals = np.concatenate([totals + one, totals - one])
    return round(float((np.abs(totals) >= abs(sum(sums.values())) - 1e-9).mean()), 4)


def average(name):  # the mean of the 12 lowest against that of another arm
    both = [
        p
        for found in whole.values()
        for p in found
        if name in p.arms and len(p.lowest.scores) == 12
    ]
    leads = [fmean(p.lowest.scores.values()) - fmean(p.arms[name].scores.values()) for p in both]
    return [round(number, 3) for number in beyond_luck(leads, [p.lowest.trials[0] for p in both])]


print(
    gains(pos), gains(studies["pos-multilingual"])
)  # [0.99, 0.89, 0.32, 2.39] [0.15, 0.12, -0.38, 0.31]
print(
    gains(studies["pos-search"]), gains(studies["pos-search-more"])
)  # [1.0, 0.97, 0.37, 2.45] [0.97, 0.82, 0.27, 2.33]
print(
    gains(studies["ner-search"]), gains(studies["slots-search"])
)  # [0.94, 0.59, -0.26, 0.93] [2.26, 2.68, 2.82, 4.07]
print(gains(studies["pos-low-resource"], "test", ("lowest", "seeds")))  # [0.14, 0.27]
print(
    gains(pos, "source dev"), gains(pos, "stop")
)  # [-0.01, 0.02, -0.34, 0.65] [0.19, 0.2, -0.41, 1.26]
print([sum(pair.arms[name].gain > 0 for pair in pos) for name in arms])  # [65, 67, 45, 69]
middle = [fmean(fmean(p.arms[name].scores.values()) - p.unpruned for p in pos) for name in arms]
print([round(one, 2) for one in middle])  # [-0.05, -0.11, -1.46, 0.05]
print(
    kept(pos), [kept(studies[name]) for name in names[2:5]], f"{sign_test(*kept(pos)):.0e}"
)  # (67, 5) [(24, 0), (12, 0), (8, 4)] 6e-15
print(
    clear("lowest", "seeds"), clear("seeds", "lowest"), clear("lowest", "random")
)  # (108, 8, 2) (108, 43, 9) (98, 12, 0)
print(
    lead("seeds"), lead("random"), lead("highest")
)  # (-1.12, 0.002, 108, 20) (0.05, 0.621, 98, 10) (0.53, 0.021, 98, 10)
print(every_sign("seeds"))  # 0.0029
print(
    *(average(name)[::3] for name in ("seeds", "random", "highest"))
)  # [-0.193, 0.271] [0.034, 0.658] [1.257, 0.002]

pairs = [
    pair for pair in Study.open("pos-search-seeds").searches if pair.setting == "cross-lingual"
]
seeds = {}
for pair in pairs:
    gains = {k: score - pair.unpruned for k, score in pair.lowest.scores.items()}
    seeds.setdefault(dict(pair.group)["seed"], {})[pair.target] = gains
chosen = {
    seed: {to: max(gains, key=gains.get) for to, gains in by.items()} for seed, by in seeds.items()
}
others = [(one, other, to) for one in seeds for other in seeds if one != other for to in seeds[one]]
print(round(fmean(max(gains.values()) for by in seeds.values() for gains in by.values()), 2))  # 0.5
print(round(fmean(seeds[other][to][chosen[one][to]] for one, other, to in others), 2))  # -0.11
print(
    round(
        fmean(gain for by in seeds.values() for gains in by.values() for gain in gains.values()), 2
    )
)  # -0.03
print(
    sum(chosen[one][to] == chosen[other][to] for one, other, to in others) // 2, len(others) // 2
)  # 23 120

fifth = [pair for pair in Study.open("pos-sources").searches if pair.setting == "cross-lingual"]
tries = {}  # by target and ranking, EC's four under one
for pair in fifth:
    tries.setdefault((pair.target, pair.rank), []).extend(
        score - pair.unpruned for score in pair.lowest.scores.values()
    )
ways = {
    way: [gains for (_, rank), gains in tries.items() if rank.endswith(end)]
    for way, end in {"MD": "md", "SD": "sd", "EC": "gradient"}.items()
}
print(
    {way: round(fmean(map(max, gains)), 2) for way, gains in ways.items()}
)  # {'MD': 0.51, 'SD': 0.64, 'EC': 1.12}
print(
    {way: round(fmean(map(fmean, gains)), 2) for way, gains in ways.items()}
)  # {'MD': 0.27, 'SD': 0.26, 'EC': 0.27}
print(round(fmean(expected_best(gains, 4) for gains in ways["EC"]), 2))  # 0.72
