"""For every claim a case in which it holds and one in which it does not.

Both have all the cases of the statement, so that no interval of a sample matters.
"""

from __future__ import annotations

from typing import Any

from example_scores import BERT, CROSS, FOUR, MBERT, MULTI, XLMR, fact, facts, glue
from example_searches import (
    both_models,
    both_ranked,
    by_both,
    controlled,
    controls,
    gains,
    japanese,
    little,
    merged,
    on_tables,
    peaks,
    rho,
    sources,
    strings,
    triples,
)
from examples import (
    HUB,
    TASKS,
    across_and_within,
    all_sets,
    bleu,
    draws,
    embeddings,
    entropy,
    epochs,
    layers,
    scattered,
    xnli,
)

from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.from_papers import stated
from deadhead.papers.claims.searches import PAPER_LRP


def _weak_link() -> dict[str, tuple[Evidence, Evidence]]:
    kept = lambda points: facts(  # noqa: E731
        fact("wmt14", "none", 30.0, target="en-ru"),
        *(
            fact("wmt14", "stratified 1", v, 87.5, "en-ru")
            for v in (29.98 - points, 30 - points, 30.02 - points)
        ),
    )
    halves = {"top2": 70, "bottom2": 71, "middle2": 69, "odd2": 73, "even2": 72}
    ends = lambda *leads: glue(  # noqa: E731
        layers(
            **{f"top{n}": 70 + lead for n, lead in zip((1, 3, 6, 8), leads, strict=True)},
            **{f"bottom{n}": 70 for n in (1, 3, 6, 8)},
        )
    )
    middles = lambda ends, middle, tasks=FOUR: glue(  # noqa: E731
        layers(
            **{f"ends{n}": ends for n in (2, 4, 6, 8)},
            **{f"middle{n}": middle for n in (2, 4, 6, 8)},
        ),
        tasks,
    )
    no_order = (
        [5, 1, 8, 3, 6, 2, 7, 4],
        [4, 7, 2, 6, 3, 8, 1, 5],
        [5, 1, 8, 3, 6, 2, 7, 4],
        [4, 7, 2, 6, 3, 8, 1, 5],
    )
    return {
        "W1": (
            bleu(s25=30.1, s35=30.1, s50=30, s55=29.9, s60=29.86),
            bleu(s25=30, s35=29.7, s50=30, s55=29.9, s60=29.9),
        ),
        "W2": (bleu(s75=29.1), bleu(s75=28.9)),
        "W3": (kept(1.62), kept(0.4)),
        "W3a": (bleu(s25=30, s60=29.9, s87=29), bleu(s25=29.5, s60=29, s87=28.9)),
        "W3b": (bleu(s60=29.9, s75=29.5, s87=29), bleu(s60=29.9, s75=29, s87=29.5)),
        "W4": (strings(0.3, -0.2, 0.1, -0.3, 0.2), strings(0.9, 0.8, 0.7, 0.9, 0.8)),
        "W5": (triples(0, 1, 2), triples(2, 1, 2)),
        "W6": (glue({"random 50": (79.5, 50)}), glue({"random 50": (78, 50)})),
        "W7": (
            glue({"random 50": (79.5, 50), "random 90": (70, 90)}),
            glue({"random 50": (70, 50), "random 90": (69, 90)}),
        ),
        "W8": (ends(0.5, -0.5, 0.3, -0.4), ends(0.5, 0.5, 0.3, 0.4)),
        "W9": (middles(71, 70), middles(71, [70, 72])),
        "W10": (middles(73, 70, ("qnli", "sst2")), middles(73, [70, 72], ("qnli", "sst2"))),
        "W11": (glue(layers(**halves)), glue(layers(**{**halves, "odd2": [73, 70.5]}))),
        "W12": (glue(layers(**halves)), glue(layers(**{**halves, "odd2": [73, 70.5]}))),
        "W13": (glue(layers(**halves)), glue(layers(**{**halves, "even2": [73, 70.5]}))),
        "W15": (all_sets(1.0, 0.95, 0.98), all_sets(1.0, 0.8, 0.98)),
        "W16": (scattered(*no_order), scattered([1, 2, 3, 4, 5, 6, 7, 8])),
        "W17": (draws("wmt14", "en-ru", BERT, 0.668), draws("wmt14", "en-ru", BERT, 2.0)),
        "W18": (draws("mnli", "en", BERT, 0.778), draws("mnli", "en", BERT, 0.1)),
    }


def _mbert() -> dict[str, tuple[Evidence, Evidence]]:
    halves = {"top2": 70.0, "bottom2": 71.0, "middle2": 69.0, "odd2": 72.0, "even2": 73.0}
    of = lambda **other: glue(layers(**{**halves, **other}), model=MBERT)  # noqa: E731

    def drawn(p: int, value: float) -> Evidence:
        return glue({f"random {p}": (value, p)}, model=MBERT, full=100.0)

    tenths = range(10, 100, 10)

    def curve_of(full: float, slope: float) -> dict[str, Any]:
        return {f"random {p}": (full - slope * p / 10, p) for p in tenths}

    def unpruned(*ours: float) -> Evidence:
        return facts(
            *(fact(t, "none", v, model=MBERT) for t, v in zip(FOUR, ours, strict=True)),
            *(fact(t, "none", 80.0, model=BERT) for t in FOUR),
        )

    def depths(few: float, many: float) -> Evidence:
        small = {
            f"layers {w} 1": (v, 20) for w, v in (("top", 75), ("bottom", 75), ("middle", 75 - few))
        }
        large = {
            f"layers {w} 3": (v, 60)
            for w, v in (("top", 65), ("bottom", 65), ("middle", 65 - many))
        }
        return glue({**small, **large}, model=MBERT)

    def curve(at25: float, at50: float, at90: float) -> Evidence:
        return xnli(
            {
                "random 25": (80 - 0.8 * at25, 25),
                "random 50": (80 - 0.8 * at50, 50),
                "random 90": (80 - 0.8 * at90, 90),
            }
        )

    ends = lambda top, bottom: xnli({"layers top 2": top, "layers bottom 2": bottom})  # noqa: E731
    lag = lambda languages, bert: (  # noqa: E731
        xnli(
            {
                "layers top 2": 70,
                "layers bottom 2": 70,
                "layers middle 2": [70 - points for points in languages],
            }
        )
        + glue({"layers top 2": 70, "layers bottom 2": 70, "layers middle 2": 70 - bert})
    )
    return {
        "M1": (of(), of(middle2=70.5)),
        "M2": (of(), of(top2=[70.0, 72.5])),
        "M3": (of(), of(even2=71.5)),
        "M4": (drawn(50, 98.0), drawn(50, 99.0)),
        "M5": (drawn(90, 92.5), drawn(90, 85.0)),
        "M6": (
            both_models(curve_of(70, 1.0), curve_of(80, 1.05), (70, 80)),
            both_models(curve_of(70, 1.0), curve_of(80, 2.0), (70, 80)),
        ),
        "M7": (unpruned(78, 79.5, 80.5, 78), unpruned(81, 79.5, 80.5, 78)),
        "M8": (depths(0.5, 3.0), depths(3.0, 0.5)),
        "M9": (curve(2.5, 5.0, 12.0), curve(2.5, 5.0, 25.0)),
        "M10": (
            xnli({"random 50": ([79, 76, 77, 70, 70], 50)}),
            xnli({"random 50": ([75, 76, 77, 70, 70], 50)}),
        ),
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
        "M19": (across_and_within(2.0, 1.0), across_and_within(1.0, 2.0)),
        "M20": (draws("xnli", "de", MBERT, 0.51), draws("xnli", "de", MBERT, 2.0)),
        "M22": (ends(75, [74, 73, 72, 71, 66]), ends(75, [66, 73, 72, 71, 74])),
        "M21": (epochs(76.0, 80.0), epochs(76.0, 80.0, sw=70.0)),
    }


def _contributions() -> dict[str, tuple[Evidence, Evidence]]:
    up = lambda n, of, **more: gains([1.0] * n + [-1.0] * (of - n), **more)  # noqa: E731
    some = lambda n, task, of=96: on_tables(task, [1.0] * n + [-1.0] * (of - n))  # noqa: E731
    near_family = lambda s: (  # noqa: E731
        -1.0 if {s.source, s.target} in ({"en", "de"}, {"en", "nl"}, {"ar", "he"}) else 1.0
    )
    two = lambda **arms: controlled("pos", **arms) + controlled("ner", **arms)  # noqa: E731
    examples = {
        "C-count-POS": (some(88, "pos"), some(60, "pos")),
        "C-count-NER": (some(77, "ner"), some(40, "ner")),
        "C-count-SF": (some(31, "slots", 34), some(20, "slots", 34)),
        "C-drop-NER": (
            on_tables("ner", lambda s: 1.0 if s.target == "nl" else -1.0),
            on_tables("ner", near_family),
        ),
        "C-max-vs-low": (two(highest=0.5), two(highest=2.0)),
        "C-rand-vs-low": (two(random=0.5), two(random=1.1)),
        "C-max-vs-rand": (
            two(random=-0.5, highest=-1.0),
            two(random=-0.5, highest=lambda s: -1.0 if s.target in ("de", "nl") else 0.0),
        ),
        "C-multi-all": (merged() + merged("ner"), merged() + merged("ner", SD=49.9)),
        "C-md-sd": (merged() + merged("ner"), merged(SD=53.0) + merged("ner", SD=49.0)),
        "C-single-NER": (sources("ner", 3.0), sources("ner", -3.0)),
        "C-single-POS": (sources("pos", 1.0), sources("pos", 9.0)),
        "C-rho": (rho("pos", 0.15, 0.5), rho("pos", 0.9, 0.001)),
        "C-p-POS": (rho("pos", 0.9, 0.001), rho("pos", 0.15, 0.5)),
        "C-p-NER": (rho("ner", 0.9, 0.001), rho("ner", 0.15, 0.5)),
        "C-p-SF": (rho("slots", 0.15, 0.6), rho("slots", 0.9, 0.001)),
        "C-rank": (both_ranked(0, 2), both_ranked(2)),
        "C-ranker-alike": (by_both(3), by_both(12)),
        "C-low": (little(50), little(20)),
        "C-peak": (peaks(1.5), peaks(-0.5)),
        "C-low-ja": (japanese(59.5), japanese(58.5)),
        "C-models-NER": (
            on_tables("ner", 1.0, model=MBERT) + on_tables("ner", 1.4, model=XLMR),
            on_tables("ner", 1.0, model=MBERT) + on_tables("ner", 3.0, model=XLMR),
        ),
    }
    for name, task in TASKS.items():
        ks = stated("contributions", "mean_heads_pruned", task=task, model=MBERT)
        examples[f"C-heads-{name}"] = (
            on_tables(task, 1.0, model=MBERT, k=ks),
            on_tables(task, 1.0, model=MBERT, k=ks - 4),
        )
        lost = lambda low, task=task: on_tables(  # noqa: E731
            task, lambda s: low if s.target == "de" else 1.0
        )
        examples[f"C-rest-{name}"] = (lost(-0.9), lost(-1.1))
    for name in ("NER", "POS"):
        task = TASKS[name]
        out_of = lambda zh, task=task: on_tables(  # noqa: E731
            task, lambda s: zh if s.source == "zh" and s.target != "en" else 1.0
        )
        examples[f"C-source-{name}"] = (
            on_tables(task, lambda s: -1.0 if s.target == "de" else 1.0),
            out_of(-1.0),
        )
        examples[f"C-max-{name}"] = (controlled(task, highest=-1.0), controlled(task, highest=0.5))
        examples[f"C-rand-{name}"] = (controlled(task, random=-1.0), controlled(task, random=0.5))
        best, second = merged(task, ("en", "de", "ar")), merged(task, ("he", "zh"), MD=60.0)
        examples[f"C-EC-{name}"] = (best + second, merged(task, MD=60.0))
    for model, setting in ((m, s) for m in HUB for s in (CROSS, MULTI)):
        for name in ("POS", "NER"):
            number = stated(
                "contributions",
                "mean_F1_improvement",
                task=TASKS[name],
                model=HUB[model],
                setting=setting,
            )
            of = lambda gain, name=name, model=model, setting=setting: on_tables(  # noqa: E731
                TASKS[name], gain, model=HUB[model], setting=setting
            )
            examples[f"C-mean-{name}-{model}-{setting}"] = (of(number), of(1.5 * number))
        of = lambda gain, model=model, setting=setting: on_tables(  # noqa: E731
            "slots", gain, model=HUB[model], setting=setting
        )
        examples[f"C-mean-SF-{model}-{setting}"] = (of(1.0), of(-1.0))
    for model, hub in HUB.items():
        number = stated("contributions", "mean_F1_improvement_overall", model=hub)
        both = lambda n, hub=hub: on_tables("pos", n, model=hub)  # noqa: E731
        examples[f"C-overall-{model}"] = (both(number), both(number + 5))
        for family in ("IE", "Germanic", "Semitic"):
            number = stated(
                "contributions", "mean_F1_improvement_same_family", model=hub, of=family
            )
            examples[f"C-fam-{family}-{model}"] = (both(number), both(number + 5))
    for setting in (CROSS, MULTI):
        number = stated(
            "contributions", "mean_F1_improvement_by_ranker", setting=setting, of="gradient"
        )
        by = lambda n, rank, setting=setting: on_tables(  # noqa: E731
            "ner", n, model=MBERT, setting=setting, rank=rank
        )
        examples[f"C-ranker-{setting}"] = (
            by(number, "gradient") + by(number - 0.2, PAPER_LRP),
            by(number, "gradient") + by(number + 0.2, PAPER_LRP),
        )
        for name in ("POS", "NER"):
            ours = lambda full, name=name, setting=setting: (  # noqa: E731
                on_tables(TASKS[name], 1.0, model=MBERT, setting=setting, unpruned=50.0)
                + on_tables(TASKS[name], 1.0, model=XLMR, setting=setting, unpruned=full)
            )
            examples[f"C-xlmr-{name}-{setting}"] = (ours(55.0), ours(45.0))
    for arm in ("seeds", "random", "highest"):
        examples[f"L-{arm}"] = (controls(arm, 0.2), controls(arm, 1.2))
    for name, task in TASKS.items():  # one trial beats another half of the time
        examples[f"L-count-{name}"] = (
            up(12, 12, task=task, budget=1),
            up(1, 12, task=task, budget=1),
        )
    return examples


CASES = {**_weak_link(), **_mbert(), **_contributions()}
