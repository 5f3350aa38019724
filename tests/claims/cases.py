"""Evidence made by hand: for every claim a case in which it holds and one in which it does not."""

from __future__ import annotations

from itertools import count
from typing import Any

from deadhead.claims.contributions import PAPER_LRP
from deadhead.claims.evidence import Best, Evidence, Fact, Measured, Merged, Ranked, Rho, Search
from deadhead.claims.from_papers import stated
from deadhead.tasks import task_of

MBERT, XLMR, BERT = "bert-base-multilingual-cased", "xlm-roberta-base", "bert-base-uncased"
HUB = {"mbert": MBERT, "xlm-r": XLMR}
TASKS = {"POS": "pos", "NER": "ner", "SF": "slots"}
CROSS, MULTI = "cross-lingual", "multi-lingual"
SPOKEN = ("en", "hi", "ar", "tr", "sw")  # SVO, SOV, VSO, and two agglutinative ones; high, low, medium, medium, low resource
_ids = count()


def fact(task: str, remove: str, value: float, share: float | None = None, target: str = "en", model: str = BERT, **more: Any) -> Fact:
    more = {"trial": f"t{next(_ids)}", "kind": task_of(task).kind, **more}
    return Fact(model, task, "en", target, remove, 0.0 if remove == "none" else share, value, **more)


def facts(*several: Fact) -> Evidence:
    return Evidence(several)


def bleu(**by_share: float) -> Evidence:
    """A curve of a translation model that has 30 BLEU unpruned: s60=29.9 is 29.9 BLEU with 60 % of the heads gone."""
    curve = [fact("wmt14", f"random {name[1:]} per=block", value, float(name[1:]), "en-ru") for name, value in by_share.items()]
    return facts(fact("wmt14", "none", 30.0, target="en-ru"), *curve)


def glue(removed: dict[str, Any], tasks: tuple[str, ...] = ("mnli", "sst2"), model: str = BERT, full: float | None = 80.0) -> Evidence:
    """Scores on some tasks by what is removed: {"layers top 2": 70} or with the share, {"random 50": (79, 50)}; one for each task, if a list."""
    found = [] if full is None else [fact(task, "none", full, model=model) for task in tasks]
    for remove, told in removed.items():
        values, share = told if isinstance(told, tuple) else (told, None)
        several = values if isinstance(values, list) else [values] * len(tasks)
        found += [fact(task, remove, value, share, model=model) for task, value in zip(tasks, several, strict=True)]
    return Evidence(tuple(found))


def xnli(removed: dict[str, Any], full: float = 80.0) -> Evidence:
    """Scores in the languages SPOKEN, by what is removed."""
    found = [fact("xnli", "none", full, target=target, model=MBERT) for target in SPOKEN]
    for remove, told in removed.items():
        values, share = told if isinstance(told, tuple) else (told, None)
        for target, value in zip(SPOKEN, values if isinstance(values, list) else [values] * 5, strict=True):
            found.append(fact("xnli", remove, value, share, target, MBERT))
    return Evidence(tuple(found))


def layers(**gone: Any) -> dict[str, Any]:
    """top2=70 as {"layers top 2": 70}; ends4 is both ends."""
    named = {}
    for name, value in gone.items():
        word, n = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        named[f"layers top {n // 2} + bottom {n // 2}" if word == "ends" else f"layers {word} {n}"] = value
    return named


def change(values: list[float], name: str, stage: str, remove: str, model: str, trial: str, gone: int = 0) -> Measured:
    """One number for each layer, of its one head; `gone` layers above have none left."""
    removed = tuple(f"encoder.{len(values) + i}.0" for i in range(gone))
    return Measured(trial, model, "mnli", remove, name, stage, {f"encoder.{i}.0": v for i, v in enumerate(values)}, removed)


def weights(*values: float, remove: str = "layers top 1") -> Evidence:
    return Evidence(measured=(change(list(values), "weights", "after", remove, BERT, "w", gone=1),))


def entropy(*moved: float) -> Evidence:
    before = change([1.0] * len(moved), "entropy", "before", "random 90", MBERT, "e")
    after = change([1.0 + m for m in moved], "entropy", "first", "random 90", MBERT, "e")
    return Evidence(measured=(before, after))


def embeddings(close: float, together: float, apart: float, silhouettes: tuple[float, float] = (0.5, 0.1)) -> Evidence:
    names = ["en", "de", "hi", "ur", "tr"]
    groups = {frozenset(("en", "de")): close, frozenset(("hi", "ur")): together}

    def between(a: str, b: str) -> float:
        return 0.0 if a == b else groups.get(frozenset((a, b)), apart if "tr" in (a, b) else 1.0)

    centroids = {"languages": names, "distances": [[between(a, b) for b in names] for a in names]}
    made = [
        Measured("x", MBERT, "xnli", "random 50", "embeddings", stage, {"silhouette": s, "centroids": centroids})
        for stage, s in zip(("before", "first"), silhouettes, strict=True)
    ]
    return Evidence(measured=tuple(made))


def epochs(first: float, last: float) -> Evidence:
    return facts(
        *(
            fact("xnli", "random 50", value, 50, target, MBERT, trial="r", epoch=epoch)
            for target in ("en", "de")
            for epoch, value in ((1, first), (None, last))
        )
    )


def search(gain: float, source: str = "en", target: str = "de", task: str = "pos", setting: str = CROSS, **more: Any) -> Search:
    arms = {"lowest": Best(gain, more.pop("k", None), tried=tuple(range(1, more.pop("budget", 12) + 1)))}
    arms |= {arm: Best(more.pop(arm)) for arm in ("highest", "random", "seeds") if arm in more}
    fields = {"model": MBERT, "full": 50.0, "trials": (f"s{next(_ids)}",), **more}
    return Search(fields.pop("model"), task, source, target, setting, fields.pop("full"), arms, **fields)


OTHERS = ("de", "nl", "fa", "ur", "he", "ar", "zh", "ja", "es", "pt", "fr", "tr")


def gains(values: list[float], **more: Any) -> Evidence:
    """Searches from English to one language after another."""
    return Evidence(searches=tuple(search(value, target=target, **more) for value, target in zip(values, OTHERS, strict=False)))


def around(number: float) -> list[float]:
    return [number - 0.1, number, number + 0.1]


def merged(task: str = "pos", targets: tuple[str, ...] = ("en", "de", "ar"), **ways: float) -> Evidence:
    scores = {"MD": 51.0, "SD": 51.0, "EC": 52.0, **ways}
    return Evidence(merged=tuple(Merged(MBERT, task, "he+zh", target, 50.0, scores, (f"m{next(_ids)}",)) for target in targets))


def sources(task: str, ahead: float) -> Evidence:
    """Several sources, so far ahead of the best single one, into three targets."""
    alone = tuple(search(1.0, "he", target, task, full=50.0 - ahead) for target in ("en", "de", "ar"))
    both = tuple(
        Merged(MBERT, task, "he+zh", target, 50.0, dict.fromkeys(("MD", "SD", "EC"), 51.0), ("m",)) for target in ("en", "de", "ar")
    )
    return Evidence(searches=alone, merged=both)


def rho(task: str, value: float, p: float) -> Evidence:
    return Evidence(rhos=(Rho(MBERT, task, CROSS, "uriel distance", value, 24, p),), searches=(search(1.0, task=task),))


def rankings(top: int, bottom: int = 0, model: str = MBERT) -> Evidence:
    """Two languages and twelve heads, of which the second language moves this many of the two highest and lowest to the middle."""
    order = list(range(12))
    other = order.copy()
    for place in (*range(11, 11 - top, -1), *range(bottom)):
        partner = 5 if place > 5 else 6
        partner += place % 2 if place > 5 else place
        other[place], other[partner] = other[partner], other[place]
    made = (
        Ranked(f"k{language}", model, "pos", language, "gradient", {f"encoder.0.{head}": float(i) for i, head in enumerate(heads)})
        for language, heads in (("en", order), ("de", other))
    )
    return Evidence(rankings=tuple(made))


def japanese(parts8: float) -> Evidence:
    some = {"task": "ner", "target": "ja", "setting": MULTI}
    return Evidence(searches=(search(1.0, full=parts8 - 1, parts=8, **some), search(1.0, full=60.0, **some)))


def controls(arm: str, value: float, task: str = "pos", low: float = 1.0) -> Evidence:
    """Eight searches with a control arm, all alike."""
    return Evidence(searches=tuple(search(low, target=t, task=task, **{arm: value}) for t in OTHERS[:8]))


PER_LAYER = ("per_layer 84/48/84", "per_layer 48/84/48", "per_layer 62/26/62", "per_layer 26/62/26")


def strings(first: float, second: float) -> Evidence:
    """Important layers keep more, minus fewer, at two percentages."""
    values = (28.0 + first, 28.0, 27.0 + second, 27.0)
    return facts(
        *(fact("wmt14", text, value, 25.0 * (1 + i // 2), "en-ru") for i, (text, value) in enumerate(zip(PER_LAYER, values, strict=True)))
    )


def triples(*best: int) -> Evidence:
    """At three percentages, the block (0 to 2) that is best to keep fewest heads in."""
    found = []
    for few, winner in zip((4, 8, 12), best, strict=True):
        for least in range(3):
            kept = [20, 20, 20]
            kept[least] = few
            found.append(fact("wmt14", "per_block " + "/".join(map(str, kept)), 29.0 if least == winner else 28.0, 50.0 + few, "en-ru"))
    return facts(*found)


def both_models(
    mbert: dict[str, Any], bert: dict[str, Any], full: tuple[float, float], tasks: tuple[str, ...] = ("mnli", "sst2")
) -> Evidence:
    return glue(mbert, tasks, MBERT, full[0]) + glue(bert, tasks, BERT, full[1])


def _weak_link() -> dict[str, tuple[Evidence, Evidence]]:
    draws = lambda lost: facts(  # noqa: E731
        fact("wmt14", "none", 30.0, target="en-ru"),
        *(fact("wmt14", "stratified 1", v, 87.5, "en-ru") for v in (29.9 - lost, 30 - lost, 30.1 - lost)),
    )
    halves = {"top2": 70, "bottom2": 71, "middle2": 69, "odd2": 73, "even2": 72}
    return {
        "W1": (bleu(s35=30.1, s60=29.86), bleu(s35=29.7, s60=29.9)),
        "W2": (bleu(s75=29.1), bleu(s75=28.9)),
        "W3": (draws(1.62), draws(0.4)),
        "W3a": (bleu(s25=30, s60=29.9, s87=29), bleu(s25=29.5, s60=29, s87=28.9)),
        "W3b": (bleu(s60=29.9, s75=29.5, s87=29), bleu(s60=29.9, s75=29, s87=29.5)),
        "W4": (strings(0.3, -0.2), strings(0.3, 0.1)),
        "W5": (triples(0, 1, 2), triples(2, 1, 2)),
        "W6": (glue({"random 50": (79.5, 50)}), glue({"random 50": (78, 50)})),
        "W7": (glue({"random 50": (79.5, 50), "random 90": (70, 90)}), glue({"random 50": (70, 50), "random 90": (69, 90)})),
        "W8": (glue(layers(top1=71, bottom1=70, top2=60, bottom2=61)), glue(layers(top1=71, bottom1=70, top2=62, bottom2=61))),
        "W9": (glue(layers(ends2=71, middle2=70, ends4=61, middle4=60)), glue(layers(ends2=71, middle2=70, ends4=61, middle4=[60, 62]))),
        "W10": (glue(layers(ends2=73, middle2=70), ("qnli", "sst2")), glue(layers(ends2=73, middle2=[70, 72]), ("qnli", "sst2"))),
        "W11": (glue(layers(**halves)), glue(layers(**{**halves, "odd2": [73, 70.5]}))),
        "W12": (glue(layers(**halves)), glue(layers(**{**halves, "odd2": [73, 70.5]}))),
        "W13": (glue(layers(**halves)), glue(layers(**{**halves, "even2": [73, 70.5]}))),
        "W15": (weights(1.0, 0.95, 0.98), weights(1.0, 0.8, 0.98)),
        "W16": (weights(3, 1, 4, 1.5, 5, 0.9, 2.6, 3.2), weights(1, 2, 3, 4, 5, 6, 7, 8)),
    }


def _mbert() -> dict[str, tuple[Evidence, Evidence]]:
    halves = {"top2": 70.0, "bottom2": 71.0, "middle2": 69.0, "odd2": 72.0, "even2": 73.0}
    of = lambda **other: glue(layers(**{**halves, **other}), model=MBERT)  # noqa: E731
    drawn = lambda p, value: glue({f"random {p}": (value, p)}, model=MBERT, full=100.0)  # noqa: E731
    two = {"random 10": (79.0, 10), "random 50": (75.0, 50)}
    less = {"random 10": (69.0, 10), "random 50": (60.0, 50)}
    four = ("mnli", "qqp", "qnli", "sst2")

    def unpruned(*ours: float) -> Evidence:
        return facts(
            *(fact(t, "none", v, model=MBERT) for t, v in zip(four, ours, strict=True)), *(fact(t, "none", 80.0, model=BERT) for t in four)
        )

    def depths(few: float, many: float) -> Evidence:
        small = {f"layers {w} 1": (v, 20) for w, v in (("top", 75), ("bottom", 75), ("middle", 75 - few))}
        large = {f"layers {w} 3": (v, 60) for w, v in (("top", 65), ("bottom", 65), ("middle", 65 - many))}
        return glue({**small, **large}, model=MBERT)

    def curve(at25: float, at50: float, at90: float) -> Evidence:
        return xnli({"random 25": (80 - 0.8 * at25, 25), "random 50": (80 - 0.8 * at50, 50), "random 90": (80 - 0.8 * at90, 90)})

    ends = lambda top, bottom: xnli({"layers top 2": top, "layers bottom 2": bottom})  # noqa: E731
    lag = lambda languages, bert: (  # noqa: E731
        xnli({"layers top 2": 70, "layers bottom 2": 70, "layers middle 2": [70 - lost for lost in languages]})
        + glue({"layers top 2": 70, "layers bottom 2": 70, "layers middle 2": 70 - bert})
    )
    return {
        "M1": (of(), of(middle2=70.5)),
        "M2": (of(), of(top2=[70.0, 72.5])),
        "M3": (of(), of(even2=71.5)),
        "M4": (drawn(50, 98.0), drawn(50, 99.0)),
        "M5": (drawn(90, 92.5), drawn(90, 85.0)),
        "M6": (both_models({"random 10": (69.5, 10), "random 50": (65.0, 50)}, two, (70, 80)), both_models(less, two, (70, 80))),
        "M7": (unpruned(78, 79.5, 80.5, 78), unpruned(81, 79.5, 80.5, 78)),
        "M8": (depths(0.5, 3.0), depths(3.0, 0.5)),
        "M9": (curve(2.5, 5.0, 12.0), curve(2.5, 5.0, 25.0)),
        "M10": (xnli({"random 50": ([79, 76, 77, 70, 70], 50)}), xnli({"random 50": ([75, 76, 77, 70, 70], 50)})),
        "M11": (ends(75, 70), ends(75, [70, 70, 70, 76, 70])),
        "M12": (ends(75, [74, 73, 72, 71, 66]), ends(75, [66, 73, 72, 71, 74])),
        "M13": (ends([60, 65, 68, 75, 75], 50), ends([75, 65, 68, 60, 60], 50)),
        "M14": (lag([1, 1, 1, 9, 9], 5), lag([9, 9, 9, 1, 1], 5)),
        "M15": (
            xnli(layers(top2=70, bottom2=69, odd2=71, even2=72)),
            xnli(layers(top2=70, bottom2=69, odd2=73, even2=72)),
        ),
        "M16": (epochs(76.0, 80.0), epochs(60.0, 80.0)),
        "M17": (entropy(0.1, 0.1, 0.1, 0.1, 0.3, 0.3), entropy(0.1, 0.1, 0.4, 0.4, 0.3, 0.3)),
        "M18": (embeddings(0.2, 0.3, 2.0), embeddings(0.2, 0.3, 2.0, (0.1, 0.5))),
    }


def _contributions() -> dict[str, tuple[Evidence, Evidence]]:
    up = lambda n, of, **more: gains([1.0] * n + [-1.0] * (of - n), **more)  # noqa: E731
    found = {
        "C-count-POS": (up(11, 12), up(6, 12)),
        "C-count-NER": (up(10, 12, task="ner"), up(3, 12, task="ner")),
        "C-count-SF": (up(11, 12, task="slots"), up(6, 12, task="slots")),
        "C-max-vs-low": (controls("highest", 0.5), controls("highest", 2.0)),
        "C-rand-vs-low": (controls("random", 0.5), controls("random", 1.0)),
        "C-max-vs-rand": (
            Evidence(searches=tuple(search(1, target=t, random=-0.5, highest=-1.0) for t in OTHERS[:8])),
            Evidence(searches=tuple(search(1, target=t, random=-0.5, highest=-1.0 + i % 2) for i, t in enumerate(OTHERS[:8]))),
        ),
        "C-multi-all": (merged(), merged(SD=49.9)),
        "C-single-NER": (sources("ner", 3.0), sources("ner", -3.0)),
        "C-single-POS": (sources("pos", 1.0), sources("pos", 9.0)),
        "C-rho": (rho("pos", 0.15, 0.5), rho("pos", 0.9, 0.001)),
        "C-p-POS": (rho("pos", 0.9, 0.001), rho("pos", 0.15, 0.5)),
        "C-p-NER": (rho("ner", 0.9, 0.001), rho("ner", 0.15, 0.5)),
        "C-p-SF": (rho("slots", 0.15, 0.6), rho("slots", 0.9, 0.001)),
        "C-rank": (rankings(0, 2), rankings(2)),
        "C-low": (up(6, 8, setting=MULTI, parts=3), up(4, 8, setting=MULTI, parts=3)),
        "C-low-ja": (japanese(60.5), japanese(59.5)),
    }
    for name, task in TASKS.items():
        ks = stated("contributions", "mean_heads_pruned", task=task, model=MBERT)
        made = lambda k, task=task: Evidence(  # noqa: E731
            searches=tuple(search(1, target=t, task=task, k=k + d, budget=12) for t, d in zip(OTHERS, (-0.5, 0, 0.5), strict=False))
        )
        found[f"C-heads-{name}"] = (made(ks), made(ks - 4))
    for name in ("NER", "POS"):
        task = TASKS[name]
        found[f"C-max-{name}"] = (controls("highest", -1.0, task), controls("highest", 0.5, task))
        found[f"C-rand-{name}"] = (controls("random", -1.0, task), controls("random", 0.5, task))
        won, lost = merged(task, ("en", "de", "ar")), merged(task, ("he", "zh"), MD=60.0)
        found[f"C-EC-{name}"] = (won + lost, merged(task, OTHERS[:9], MD=60.0))
    for model, setting in ((m, s) for m in HUB for s in (CROSS, MULTI)):
        for name in ("POS", "NER"):
            number = stated("contributions", "mean_F1_improvement", task=TASKS[name], model=HUB[model], setting=setting)
            some = {"task": TASKS[name], "model": HUB[model], "setting": setting}
            found[f"C-mean-{name}-{model}-{setting}"] = (gains(around(number), **some), gains(around(number + 5), **some))
        some = {"task": "slots", "model": HUB[model], "setting": setting}
        found[f"C-mean-SF-{model}-{setting}"] = (gains([1.0, 2.0, -0.5], **some), gains([-1.0, -2.0, 0.5], **some))
    for model, hub in HUB.items():
        number = stated("contributions", "mean_F1_improvement_overall", model=hub)
        both = lambda n, hub=hub: gains(around(n), model=hub) + gains(around(n), model=hub, setting=MULTI)  # noqa: E731
        found[f"C-overall-{model}"] = (both(number), both(number + 5))
        for family, pairs in FAMILIES.items():
            number = stated("contributions", "mean_F1_improvement_same_family", model=hub, of=family)
            made = lambda n, pairs=pairs, hub=hub: Evidence(  # type: ignore[misc]  # noqa: E731
                searches=tuple(search(v, s, t, setting=how, model=hub) for v, (s, t, how) in zip(around(n), pairs, strict=True))
            )
            found[f"C-fam-{family}-{model}"] = (made(number), made(number + 5))
    for setting in (CROSS, MULTI):
        number = stated("contributions", "mean_F1_improvement_by_ranker", setting=setting, of="gradient")
        by = lambda n, rank, setting=setting: gains(around(n), task="ner", setting=setting, rank=rank)  # noqa: E731
        found[f"C-ranker-{setting}"] = (
            by(number, "gradient") + by(number - 0.2, PAPER_LRP),
            by(number, "gradient") + by(number + 0.2, PAPER_LRP),
        )
        for name in ("POS", "NER"):
            some = {"task": TASKS[name], "setting": setting}
            ours = lambda full, some=some: gains([1.0] * 6, full=50.0, **some) + gains([1.0] * 6, full=full, model=XLMR, **some)  # noqa: E731
            found[f"C-xlmr-{name}-{setting}"] = (ours(55.0), ours(45.0))
    for arm in ("seeds", "random", "highest"):
        found[f"L-{arm}"] = (controls(arm, 0.2), controls(arm, 1.2))
    for name, task in TASKS.items():  # one trial beats another half of the time
        found[f"L-count-{name}"] = (up(12, 12, task=task, budget=1), up(6, 12, task=task, budget=1))
    return found


FAMILIES = {
    "IE": (("en", "de", CROSS), ("en", "fa", CROSS), ("en", "ur", MULTI)),
    "Germanic": (("en", "de", CROSS), ("en", "nl", CROSS), ("en", "nl", MULTI)),
    "Semitic": (("ar", "he", CROSS), ("ar", "he", MULTI), ("he", "ar", CROSS)),
}
CASES = {**_weak_link(), **_mbert(), **_contributions()}
