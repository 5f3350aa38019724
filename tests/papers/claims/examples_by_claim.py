"""For every function of a claim a case in which it holds and one in which it does not.

Both have all the cases of the statement, so that no interval of a sample matters.
"""

from functools import partial

from example_scores import BERT, CROSS, FOUR, MBERT, XLMR, fact, facts, glue
from example_searches import (
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
from deadhead.papers.claims.searches import PAPER_LRP

Cases = dict[str, tuple[Evidence, Evidence]]
TENTHS = range(10, 100, 10)


def one_head_kept(points):
    kept = (30 - points + step for step in (-0.02, 0.0, 0.02))
    full = fact("wmt14", "none", 30.0, target="en-ru")
    return facts(full, *(fact("wmt14", "stratified 1", v, 87.5, "en-ru") for v in kept))


def both_ends(*leads):
    depths = (1, 3, 6, 8)
    tops = {f"top{n}": 70 + lead for n, lead in zip(depths, leads, strict=True)}
    return glue(layers(**tops, **{f"bottom{n}": 70 for n in depths}))


def middles(ends, middle, tasks=FOUR):
    sets = {"ends": ends, "middle": middle}
    return glue(layers(**{f"{w}{n}": v for w, v in sets.items() for n in (2, 4, 6, 8)}), tasks)


def halves(model=BERT, **other):
    """The odd layers are the best ones to cut in BERT, the even ones in mBERT."""
    odd, even = (73, 72) if model == BERT else (72, 73)
    ways = {"top2": 70, "bottom2": 71, "middle2": 69, "odd2": odd, "even2": even}
    return glue(layers(**{**ways, **other}), model=model)


def at_random(model=BERT, full=80.0, **scores):
    """p50=79.5 is the score without a random 50 % of the heads."""
    removed = {f"random {name[1:]}": (v, float(name[1:])) for name, v in scores.items()}
    return glue(removed, model=model, full=full)


def slopes(mbert, bert):
    """Scores of both models that fall by so much with each tenth of the heads."""
    both = ((MBERT, 70.0, mbert), (BERT, 80.0, bert))
    curves = (
        at_random(model, full, **{f"p{p}": full - slope * p / 10 for p in TENTHS})
        for model, full, slope in both
    )
    return sum(curves, Evidence())


def unpruned(*ours):
    return facts(
        *(fact(t, "none", v, model=MBERT) for t, v in zip(FOUR, ours, strict=True)),
        *(fact(t, "none", 80.0, model=BERT) for t in FOUR),
    )


def depths(few, many):
    """How far the middle is behind the ends, with few and with many layers removed."""
    removed = {}
    for n, share, ends, lag in ((1, 20, 75, few), (3, 60, 65, many)):
        for word, value in (("top", ends), ("bottom", ends), ("middle", ends - lag)):
            removed[f"layers {word} {n}"] = (value, share)
    return glue(removed, model=MBERT)


def curve(**losses):
    return xnli({f"random {n[1:]}": (80 - 0.8 * v, int(n[1:])) for n, v in losses.items()})


def cut(top, bottom):
    return xnli({"layers top 2": top, "layers bottom 2": bottom})


def lag(languages, bert):
    ends = {"layers top 2": 70, "layers bottom 2": 70}
    ours = xnli({**ends, "layers middle 2": [70 - points for points in languages]})
    return ours + glue({**ends, "layers middle 2": 70 - bert})


NO_ORDER = ([5, 1, 8, 3, 6, 2, 7, 4], [4, 7, 2, 6, 3, 8, 1, 5]) * 2
TWO = ("qnli", "sst2")
ON_SCORES: Cases = {
    "W1": (
        bleu(s25=30.1, s35=30.1, s50=30, s55=29.9, s60=29.86),
        bleu(s25=30, s35=29.7, s50=30, s55=29.9, s60=29.9),
    ),
    "W2": (bleu(s75=29.1), bleu(s75=28.9)),
    "W3": (one_head_kept(1.62), one_head_kept(0.4)),
    "W3a": (bleu(s25=30, s60=29.9, s87=29), bleu(s25=29.5, s60=29, s87=28.9)),
    "W3b": (bleu(s60=29.9, s75=29.5, s87=29), bleu(s60=29.9, s75=29, s87=29.5)),
    "W4": (strings(0.3, -0.2, 0.1, -0.3, 0.2), strings(0.9, 0.8, 0.7, 0.9, 0.8)),
    "W5": (triples(0, 1, 2), triples(2, 1, 2)),
    "W6": (at_random(p50=79.5), at_random(p50=78)),
    "W7": (at_random(p50=79.5, p90=70), at_random(p50=70, p90=69)),
    "W8": (both_ends(0.5, -0.5, 0.3, -0.4), both_ends(0.5, 0.5, 0.3, 0.4)),
    "W9": (middles(71, 70), middles(71, [70, 72])),
    "W10": (middles(73, 70, TWO), middles(73, [70, 72], TWO)),
    "W11": (halves(), halves(odd2=[73, 70.5])),
    "W12": (halves(), halves(odd2=[73, 70.5])),
    "W15": (all_sets(1.0, 0.95, 0.98), all_sets(1.0, 0.8, 0.98)),
    "W16": (scattered(*NO_ORDER), scattered([1, 2, 3, 4, 5, 6, 7, 8])),
    "W18": (draws("mnli", "en", BERT, 0.778), draws("mnli", "en", BERT, 0.1)),
    "M1": (halves(MBERT), halves(MBERT, middle2=70.5)),
    "M2": (halves(MBERT), halves(MBERT, top2=[70.0, 72.5])),
    "M3": (halves(MBERT), halves(MBERT, even2=71.5)),
    "M5": (at_random(MBERT, 100, p90=92.5), at_random(MBERT, 100, p90=85)),
    "M6": (slopes(1.0, 1.05), slopes(1.0, 2.0)),
    "M7": (unpruned(78, 79.5, 80.5, 78), unpruned(81, 79.5, 80.5, 78)),
    "M8": (depths(0.5, 3.0), depths(3.0, 0.5)),
    "M9": (curve(p25=2.5, p50=5, p90=12), curve(p25=2.5, p50=5, p90=25)),
    "M10": (
        xnli({"random 50": ([79, 76, 77, 70, 70], 50)}),
        xnli({"random 50": ([75, 76, 77, 70, 70], 50)}),
    ),
    "M11": (cut(75, 70), cut(75, [70, 70, 70, 76, 70])),
    "M12": (cut(75, [74, 73, 72, 71, 66]), cut(75, [66, 73, 72, 71, 74])),
    "M13": (cut([60, 65, 68, 75, 75], 50), cut([75, 65, 68, 60, 60], 50)),
    "M14": (lag([1, 1, 1, 9, 9], 5), lag([9, 9, 9, 1, 1], 5)),
    "M15": (
        xnli(layers(top2=70, bottom2=69, odd2=71, even2=72)),
        xnli(layers(top2=70, bottom2=69, odd2=73, even2=72)),
    ),
    "M16": (epochs(76.0, 80.0), epochs(60.0, 80.0)),
    "M17": (entropy(0.1, 0.1, 0.1, 0.1, 0.3, 0.3), entropy(0.1, 0.1, 0.4, 0.4, 0.3, 0.3)),
    "M18": (embeddings(0.2, 0.3, 2.0), embeddings(0.2, 0.3, 2.0, (0.1, 0.5))),
    "M19": (across_and_within(2.0, 1.0), across_and_within(1.0, 2.0)),
    "M21": (epochs(76.0, 80.0), epochs(76.0, 80.0, sw=70.0)),
    "M22": (cut(75, [74, 73, 72, 71, 66]), cut(75, [66, 73, 72, 71, 74])),
}


def some(better, task, of=96):
    return on_tables(task, [1.0] * better + [-1.0] * (of - better))


def both_tasks(**arms):
    return controlled("pos", **arms) + controlled("ner", **arms)


def where(condition, then=-1.0):
    return lambda s: then if condition(s) else 1.0


def near(search):
    pair = {search.source, search.target}
    return pair in ({"en", "de"}, {"en", "nl"}, {"ar", "he"})


def xlmr_scores(full):
    of = partial(on_tables, "pos", 1.0, setting=CROSS)
    return of(model=MBERT, unpruned=50.0) + of(model=XLMR, unpruned=full)


def by_ranker(gradient, lrp):
    of = partial(on_tables, "ner", model=MBERT, setting=CROSS)
    return of(gradient, rank="gradient") + of(lrp, rank=PAPER_LRP)


cross_lingual = partial(on_tables, model=MBERT, setting=CROSS)
pos_of_mbert = partial(on_tables, "pos", model=MBERT)
ner = partial(on_tables, "ner")
out_of_chinese = where(lambda s: s.source == "zh" and s.target != "en")
best_in_three = merged("ner", ("en", "de", "ar")) + merged("ner", ("he", "zh"), MD=60.0)
only_low = where(lambda s: s.target in ("de", "nl"))
ON_SEARCHES: Cases = {
    "C-count-POS": (some(88, "pos"), some(60, "pos")),
    "C-count-SF": (some(31, "slots", 34), some(20, "slots", 34)),
    "C-mean-POS-mbert-cross-lingual": (cross_lingual("pos", 0.91), cross_lingual("pos", 1.4)),
    "C-mean-SF-mbert-cross-lingual": (cross_lingual("slots", 1.0), cross_lingual("slots", -1.0)),
    "C-overall-mbert": (pos_of_mbert(0.53), pos_of_mbert(5.53)),
    "C-fam-IE-mbert": (pos_of_mbert(0.4), pos_of_mbert(5.4)),
    "C-drop-NER": (ner(where(lambda s: s.target != "nl")), ner(where(near))),
    "C-ranker-cross-lingual": (by_ranker(0.81, 0.6), by_ranker(0.81, 1.0)),
    "C-max-POS": (controlled("pos", highest=-1.0), controlled("pos", highest=0.5)),
    "C-max-vs-low": (both_tasks(highest=0.5), both_tasks(highest=2.0)),
    "C-max-vs-rand": (
        both_tasks(random=-0.5, highest=-1.0),
        both_tasks(random=-0.5, highest=lambda s: min(only_low(s), 0.0)),
    ),
    "C-rand-vs-low": (both_tasks(random=0.5), both_tasks(random=1.1)),
    "C-rest-POS": (
        on_tables("pos", where(lambda s: s.target == "de", -0.9)),
        on_tables("pos", where(lambda s: s.target == "de", -1.1)),
    ),
    "C-source-NER": (ner(where(lambda s: s.target == "de")), ner(out_of_chinese)),
    "C-xlmr-POS-cross-lingual": (xlmr_scores(55.0), xlmr_scores(45.0)),
    "C-models-NER": (
        ner(1.0, model=MBERT) + ner(1.4, model=XLMR),
        ner(1.0, model=MBERT) + ner(3.0, model=XLMR),
    ),
    "C-EC-NER": (best_in_three, merged("ner", MD=60.0)),
    "C-multi-all": (merged() + merged("ner"), merged() + merged("ner", SD=49.9)),
    "C-md-sd": (merged() + merged("ner"), merged(SD=53.0) + merged("ner", SD=49.0)),
    "C-single-NER": (sources("ner", 3.0), sources("ner", -3.0)),
    "C-single-POS": (sources("pos", 1.0), sources("pos", 9.0)),
    "C-heads-POS": (pos_of_mbert(1.0, k=7.52), pos_of_mbert(1.0, k=3.52)),
    "C-rho": (rho("pos", 0.15, 0.5), rho("pos", 0.9, 0.001)),
    "C-p-POS": (rho("pos", 0.9, 0.001), rho("pos", 0.15, 0.5)),
    "C-p-SF": (rho("slots", 0.15, 0.6), rho("slots", 0.9, 0.001)),
    "C-rank": (both_ranked(0, 2), both_ranked(2)),
    "C-ranker-alike": (by_both(3), by_both(12)),
    "C-low": (little(50), little(20)),
    "C-peak": (peaks(1.5), peaks(-0.5)),
    "C-low-ja": (japanese(59.5), japanese(58.5)),
    "L-seeds": (controls("seeds", 0.2), controls("seeds", 1.2)),
    # One trial beats another half of the time.
    "L-count-POS": (gains([1.0] * 12, budget=1), gains([1.0] + [-1.0] * 11, budget=1)),
}
CASES = {**ON_SCORES, **ON_SEARCHES}
