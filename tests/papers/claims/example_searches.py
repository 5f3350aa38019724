"""Evidence of searches, rankings and measures, written by hand."""

from itertools import product

from example_scores import CROSS, MBERT, MULTI, XLMR, _ids, fact, facts

from deadhead.papers.claims.evidence import Evidence, Rho
from deadhead.papers.claims.from_papers import printed
from deadhead.papers.claims.searches import PAPER_LRP
from deadhead.results import Arm, Merged, Pick, RankedHeads, Search


def arm(gain, k=None, budget=12, **more):
    """The best of some trials; which arm it is, the search says."""
    picks = {"test": Pick(k, 50.0 + gain, gain)}
    return Arm(**{"arm": "", "picks": picks, "tried": tuple(range(1, budget + 1)), **more})


def search(gain, source="en", target="de", task="pos", setting=CROSS, **more):
    arms = {"lowest": arm(gain, more.pop("k", None), more.pop("budget", 12))}
    arms |= {name: arm(more.pop(name)) for name in ("highest", "random", "seeds") if name in more}
    fields = {"model": MBERT, "unpruned": 50.0, "trials": (f"s{next(_ids)}",), **more}
    return Search(task=task, source=source, target=target, setting=setting, arms=arms, **fields)


OTHERS = ("de", "nl", "fa", "ur", "he", "ar", "zh", "ja", "es", "pt", "fr", "tr")


def gains(values, **more):
    """Searches from English to one language after another."""
    return Evidence(
        searches=tuple(
            search(value, target=target, **more)
            for value, target in zip(values, OTHERS, strict=False)
        )
    )


def on_tables(task, gain, *, model="", setting="", **more):
    """Searches of the pairs in the paper's tables: of one model or both, in one setting or both."""
    searches = [
        s
        for s in printed().searches
        if s.task == task and model in ("", s.model) and setting in ("", s.setting)
    ]
    values = (
        gain if isinstance(gain, list) else [gain(s) if callable(gain) else gain for s in searches]
    )
    assert len(values) == len(searches)
    return Evidence(
        searches=tuple(
            search(value, s.source, s.target, task, s.setting, model=s.model, **more)
            for value, s in zip(values, searches, strict=True)
        )
    )


def controlled(task, low=1.0, **arms):
    """Searches of the pairs of table 5, with its arms."""
    searches = [s for s in printed().searches if s.task == task and "highest" in s.arms]
    results = []
    for s in searches:
        values = {arm: value(s) if callable(value) else value for arm, value in arms.items()}
        results.append(search(low, s.source, s.target, task, s.setting, **values))
    return Evidence(searches=tuple(results))


FIVE = ("en", "de", "ar", "he", "zh")


def several_sources(task, train, target, scores):
    return Merged(
        model=MBERT,
        task=task,
        train=train,
        target=target,
        unpruned=50.0,
        scores=scores,
        trials=(f"m{next(_ids)}",),
    )


def merged(task="pos", targets=FIVE, **ways):
    scores = {"MD": 51.0, "SD": 51.0, "EC": 52.0, **ways}
    return Evidence(
        merged=tuple(several_sources(task, "he+zh", target, scores) for target in targets)
    )


def sources(task, ahead):
    """Several sources, so far ahead of the best single one, into the five targets."""
    alone = tuple(
        search(1.0, "he" if target != "he" else "ur", target, task, unpruned=50.0 - ahead)
        for target in FIVE
    )
    both = tuple(
        several_sources(task, "ja+nl", target, dict.fromkeys(("MD", "SD", "EC"), 51.0))
        for target in FIVE
    )
    return Evidence(searches=alone, merged=both)


def rho(task, value, p):
    labels = {"model": MBERT, "task": task, "setting": CROSS, "against": "uriel distance"}
    one = Rho(**labels, rho=value, pairs=8 if task == "slots" else 24, p=p)
    return Evidence(rhos=(one,), searches=(search(1.0, task=task),))


def ranked(language, heads, method="gradient", task="pos", **more):
    """A ranking of the heads of one layer, the lowest first."""
    scores = {f"encoder.0.{head}": float(score) for score, head in enumerate(heads)}
    fields = {"trial": f"{method}{language}", "model": MBERT, **more}
    return RankedHeads(task=task, languages=(language,), method=method, scores=scores, **fields)


def by_both(swap):
    """Rankings of three sources by gradient and by LRP, with the first `swap` heads reversed."""
    heads = list(range(12))
    both = {"gradient": heads, PAPER_LRP: [*heads[:swap][::-1], *heads[swap:]]}
    languages = ("en", "zh", "ar")
    return Evidence(
        rankings=tuple(ranked(x, order, m, "ner") for x in languages for m, order in both.items())
    )


def rankings(top, bottom=0, model=MBERT):
    """Rankings of twelve heads in two languages.

    The second moves `top` of the two highest and `bottom` of the two lowest heads to the middle.
    """
    order = list(range(12))
    other = order.copy()
    for place in (*range(11, 11 - top, -1), *range(bottom)):
        partner = 5 + place % 2 if place > 5 else 6 + place
        other[place], other[partner] = other[partner], other[place]
    return Evidence(rankings=(ranked("en", order, model=model), ranked("de", other, model=model)))


def both_ranked(top, bottom=0):
    """Those of mBERT, and of XLM-R, whose lowest heads are the same in both languages."""
    return rankings(top, bottom) + rankings(top, 0, XLMR)


def parts_of_data(gain, **more):
    """The cases of figure 3: nine parts of the data of eight targets, by their number."""
    cases = enumerate(product(("de", "nl", "ar", "he", "zh", "ja", "ur", "fa"), range(1, 10)))
    return Evidence(
        searches=tuple(
            search(
                gain(i),
                target=target,
                setting=MULTI,
                parts=parts,
                **{name: value(parts) for name, value in more.items()},
            )
            for i, (target, parts) in cases
        )
    )


def little(better):
    """The first `better` cases gain."""
    return parts_of_data(lambda i: 1.0 if i < better else -1.0)


def peaks(gain):
    """Each tenth of the target's data is worth a point."""
    return parts_of_data(lambda i: gain, unpruned=lambda parts: 50.0 + parts)


def japanese(parts8):
    some = {"task": "ner", "target": "ja", "setting": MULTI}
    return Evidence(
        searches=(
            search(1.0, unpruned=parts8 - 1, parts=8, **some),
            search(1.0, unpruned=60.0, **some),
        )
    )


def controls(arm, value, task="pos", low=1.0):
    """Eight searches with a control arm, all alike."""
    return Evidence(
        searches=tuple(search(low, target=t, task=task, **{arm: value}) for t in OTHERS[:8])
    )


def strings(*differences):
    """Important layers keep more, minus fewer, at the five percentages of table 2."""
    printed_scores = printed("weak-link").scores
    table = [s for s in printed_scores if s.strategy == "per_layer"]
    more, fewer = table[::2], table[1::2]
    return facts(
        *(
            fact("wmt14", s.remove, 28.0 + lead, s.share, "en-ru", "transformer-base")
            for cells, factor in ((more, 1.0), (fewer, 0.0))
            for s, lead in zip(cells, [factor * d for d in differences], strict=False)
        )
    )


def triples(*best, repeats=(-0.01, 0.0, 0.01)):
    """By percentage, the block (0 to 2) that is best to keep fewest heads in; similar draws."""
    scores = []
    for few, winner in zip((4, 8, 12, 16), best, strict=False):
        for least in range(3):
            kept = [20, 20, 20]
            kept[least] = few
            text, value = "per_block " + "/".join(map(str, kept)), 29.0 if least == winner else 28.0
            scores += [fact("wmt14", text, value + more, 50.0 + few, "en-ru") for more in repeats]
    return facts(*scores)
