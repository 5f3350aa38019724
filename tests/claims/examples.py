"""Small evidence, written by hand: scores, searches, rankings and measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, cycle
from typing import Any

from deadhead.claims.evidence import Evidence, Rho
from deadhead.claims.from_papers import printed
from deadhead.claims.searches import PAPER_LRP
from deadhead.results import Arm, Measurement, Merged, Pick, RankedHeads, Score, Search
from deadhead.tasks import task_of

MBERT, XLMR, BERT = "bert-base-multilingual-cased", "xlm-roberta-base", "bert-base-uncased"
HUB = {"mbert": MBERT, "xlm-r": XLMR}
TASKS = {"POS": "pos", "NER": "ner", "SF": "slots"}
CROSS, MULTI = "cross-lingual", "multi-lingual"
SPOKEN = (
    "en",
    "es",
    "de",
    "vi",
    "zh",
    "hi",
    "el",
    "ur",
    "ar",
    "tr",
    "sw",
)  # five SVO, three SOV, VSO, two agglutinative ones
KIND = dict(
    zip(SPOKEN, (0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4), strict=True)
)  # of the five numbers by class, the one of a language
FOUR = ("mnli", "qqp", "qnli", "sst2")
_ids = count()


def fact(
    task: str,
    remove: str,
    value: float,
    share: float | None = None,
    target: str = "en",
    model: str = BERT,
    **more: Any,
) -> Score:
    more = {"trial": f"t{next(_ids)}", "kind": task_of(task).kind, **more}
    return Score(
        model=model,
        task=task,
        source="en",
        target=target,
        remove=remove,
        share=0.0 if remove == "none" else share,
        value=value,
        **more,
    )


def facts(*scores: Score) -> Evidence:
    return Evidence(scores=scores)


def bleu(**by_share: float) -> Evidence:
    """Curves of a translation model with 30 BLEU unpruned: s60=29.9 is its BLEU without 60 %."""
    scores = []
    for pair in ("en-ru", "en-de"):
        scores += [
            fact("wmt14", f"random {name[1:]} per=block", value, float(name[1:]), pair)
            for name, value in by_share.items()
        ]
        scores.append(fact("wmt14", "none", 30.0, target=pair))
    return facts(*scores)


def glue(
    removed: dict[str, Any],
    tasks: tuple[str, ...] = FOUR,
    model: str = BERT,
    full: float | None = 80.0,
) -> Evidence:
    """Scores on tasks by removal: {"layers top 2": 70}, or with the share, {"random 50": (79, 50)}.

    A list has scores for the tasks in turn.
    """
    rows = [] if full is None else [fact(task, "none", full, model=model) for task in tasks]
    for remove, told in removed.items():
        values, share = told if isinstance(told, tuple) else (told, None)
        scores = cycle(values if isinstance(values, list) else [values])
        rows += [
            fact(task, remove, value, share, model=model)
            for task, value in zip(tasks, scores, strict=False)
        ]
    return Evidence(scores=tuple(rows))


def xnli(removed: dict[str, Any], full: float = 80.0) -> Evidence:
    """Scores in the languages SPOKEN by removal; a list is by SVO, SOV, VSO, Turkish, Swahili."""
    scores = [fact("xnli", "none", full, target=target, model=MBERT) for target in SPOKEN]
    for remove, told in removed.items():
        values, share = told if isinstance(told, tuple) else (told, None)
        for target, kind in KIND.items():
            scores.append(
                fact(
                    "xnli",
                    remove,
                    values[kind] if isinstance(values, list) else values,
                    share,
                    target,
                    MBERT,
                )
            )
    return Evidence(scores=tuple(scores))


def layers(**gone: Any) -> dict[str, Any]:
    """top2=70 as {"layers top 2": 70}; ends4 is both ends."""
    named = {}
    for name, value in gone.items():
        word, n = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        named[
            f"layers top {n // 2} + bottom {n // 2}" if word == "ends" else f"layers {word} {n}"
        ] = value
    return named


def change(
    values: list[float], name: str, stage: str, remove: str, model: str, trial: str, gone: int = 0
) -> Measurement:
    """One number for each layer, of its one head; `gone` layers above have none left."""
    removed = tuple(f"encoder.{len(values) + i}.0" for i in range(gone))
    return Measurement(
        trial=trial,
        model=model,
        task="mnli",
        remove=remove,
        name=name,
        stage=stage,
        values={f"encoder.{i}.0": v for i, v in enumerate(values)},
        removed=removed,
    )


def weights(*values: float, remove: str = "layers top 1", trial: str = "w") -> Evidence:
    return Evidence(
        measures=(change(list(values), "weights", "after", remove, BERT, trial, gone=1),)
    )


def all_sets(*values: float) -> Evidence:
    """The same change of weights in a run for each of the 18 sets of layers."""
    return sum(
        (weights(*values, remove=f"layers top {n}", trial=f"w{n}") for n in range(1, 19)),
        Evidence(),
    )


def scattered(*scores: Sequence[float]) -> Evidence:
    """A run for each list of changes, one number for each layer."""
    return sum(
        (weights(*values, remove="random 10", trial=f"w{n}") for n, values in enumerate(scores)),
        Evidence(),
    )


def entropy(*moved: float) -> Evidence:
    """Three draws that hardly differ."""
    measures = []
    for trial, more in (("e1", -0.01), ("e2", 0.0), ("e3", 0.01)):
        measures.append(change([1.0] * len(moved), "entropy", "before", "random 90", MBERT, trial))
        after = [1.0 + m + (more if i == len(moved) - 1 else 0.0) for i, m in enumerate(moved)]
        measures.append(change(after, "entropy", "first", "random 90", MBERT, trial))
    return Evidence(measures=tuple(measures))


def embeddings(
    close: float, together: float, apart: float, silhouettes: tuple[float, float] = (0.5, 0.1)
) -> Evidence:
    names = list(SPOKEN)

    def between(a: str, b: str) -> float:
        if a == b:
            return 0.0
        if {a, b} & {"sw", "tr", "ar"}:
            return apart
        return (
            close
            if {a, b} <= {"en", "es", "de", "vi"}
            else together
            if {a, b} == {"hi", "ur"}
            else 1.0
        )

    centroids = {"languages": names, "distances": [[between(a, b) for b in names] for a in names]}
    results = [
        Measurement(
            trial="x",
            model=MBERT,
            task="xnli",
            remove="random 50",
            name="embeddings",
            stage=stage,
            values={"silhouette": s, "centroids": centroids},
        )
        for stage, s in zip(("before", "first"), silhouettes, strict=True)
    ]
    return Evidence(measures=tuple(results))


def epochs(first: float, last: float, **others: float) -> Evidence:
    """Four trials in all languages, those named with another score after the first epoch."""
    return facts(
        *(
            fact(
                "xnli",
                f"random {share}",
                value + share / 100,
                share,
                target,
                MBERT,
                trial=f"r{share}",
                split="test@1" if epoch else "test",
            )
            for share in (20, 40, 60, 80)
            for target in SPOKEN
            for epoch, value in ((1, others.get(target, first)), (None, last))
        )
    )


def draws(task: str, target: str, model: str, sd: float) -> Evidence:
    """Three draws of four conditions; the standard deviation is about `sd` % of the mean."""
    return facts(
        *(
            fact(
                task,
                f"random {share}",
                80 * (1 + step * (sd + 0.001 * share / 10) / 100),
                share,
                target,
                model,
            )
            for share in (10, 20, 30, 40)
            for step in (-1, 0, 1)
        )
    )


def across_and_within(across: float, within: float) -> Evidence:
    """So much is lost, of 80 points, for each tenth of the heads, on XNLI and on GLUE."""
    tenths = range(10, 100, 10)
    return xnli({f"random {p}": (80 - across * p / 10, p) for p in tenths}) + glue(
        {f"random {p}": (80 - within * p / 10, p) for p in tenths}, model=MBERT
    )


def arm(gain: float, k: float | None = None, budget: int = 12, **more: Any) -> Arm:
    """The best of some trials; which arm it is, the search says."""
    picks = {"test": Pick(k, 50.0 + gain, gain)}
    return Arm(**{"arm": "", "picks": picks, "tried": tuple(range(1, budget + 1)), **more})


def search(
    gain: float,
    source: str = "en",
    target: str = "de",
    task: str = "pos",
    setting: str = CROSS,
    **more: Any,
) -> Search:
    arms = {"lowest": arm(gain, more.pop("k", None), more.pop("budget", 12))}
    arms |= {name: arm(more.pop(name)) for name in ("highest", "random", "seeds") if name in more}
    fields = {"model": MBERT, "unpruned": 50.0, "trials": (f"s{next(_ids)}",), **more}
    return Search(task=task, source=source, target=target, setting=setting, arms=arms, **fields)


OTHERS = ("de", "nl", "fa", "ur", "he", "ar", "zh", "ja", "es", "pt", "fr", "tr")


def gains(values: list[float], **more: Any) -> Evidence:
    """Searches from English to one language after another."""
    return Evidence(
        searches=tuple(
            search(value, target=target, **more)
            for value, target in zip(values, OTHERS, strict=False)
        )
    )


def on_tables(
    task: str,
    gain: float | list[float] | Callable[[Search], float],
    *,
    model: str = "",
    setting: str = "",
    **more: Any,
) -> Evidence:
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


def controlled(task: str, low: float = 1.0, **arms: float | Callable[[Search], float]) -> Evidence:
    """Searches of the pairs of table 5, with its arms."""
    searches = [s for s in printed().searches if s.task == task and "highest" in s.arms]
    results = []
    for s in searches:
        values = {arm: value(s) if callable(value) else value for arm, value in arms.items()}
        results.append(search(low, s.source, s.target, task, s.setting, **values))
    return Evidence(searches=tuple(results))


FIVE = ("en", "de", "ar", "he", "zh")


def several_sources(task: str, train: str, target: str, scores: dict[str, float]) -> Merged:
    return Merged(
        model=MBERT,
        task=task,
        train=train,
        target=target,
        unpruned=50.0,
        scores=scores,
        trials=(f"m{next(_ids)}",),
    )


def merged(task: str = "pos", targets: tuple[str, ...] = FIVE, **ways: float) -> Evidence:
    scores = {"MD": 51.0, "SD": 51.0, "EC": 52.0, **ways}
    return Evidence(
        merged=tuple(several_sources(task, "he+zh", target, scores) for target in targets)
    )


def sources(task: str, ahead: float) -> Evidence:
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


def rho(task: str, value: float, p: float) -> Evidence:
    pairs = 8 if task == "slots" else 24
    return Evidence(
        rhos=(
            Rho(
                model=MBERT,
                task=task,
                setting=CROSS,
                against="uriel distance",
                rho=value,
                pairs=pairs,
                p=p,
            ),
        ),
        searches=(search(1.0, task=task),),
    )


def by_both(swap: int) -> Evidence:
    """Rankings of three sources by gradient and by LRP, with the first `swap` heads reversed."""
    heads = [f"encoder.0.{head}" for head in range(12)]
    other = [*heads[:swap][::-1], *heads[swap:]]
    return Evidence(
        rankings=tuple(
            RankedHeads(
                trial=f"{method}{language}",
                model=MBERT,
                task="ner",
                languages=(language,),
                method=method,
                scores={head: float(i) for i, head in enumerate(order)},
            )
            for language in ("en", "zh", "ar")
            for method, order in (("gradient", heads), (PAPER_LRP, other))
        )
    )


def rankings(top: int, bottom: int = 0, model: str = MBERT) -> Evidence:
    """Rankings of twelve heads in two languages.

    The second moves `top` of the two highest and `bottom` of the two lowest heads to the middle.
    """
    order = list(range(12))
    other = order.copy()
    for place in (*range(11, 11 - top, -1), *range(bottom)):
        partner = 5 if place > 5 else 6
        partner += place % 2 if place > 5 else place
        other[place], other[partner] = other[partner], other[place]
    results = tuple(
        RankedHeads(
            trial=f"k{language}",
            model=model,
            task="pos",
            languages=(language,),
            method="gradient",
            scores={f"encoder.0.{head}": float(i) for i, head in enumerate(heads)},
        )
        for language, heads in (("en", order), ("de", other))
    )
    return Evidence(rankings=results)


def both_ranked(top: int, bottom: int = 0) -> Evidence:
    """Those of mBERT, and of XLM-R, whose lowest heads are the same in both languages."""
    return rankings(top, bottom) + rankings(top, 0, XLMR)


def little(better: int) -> Evidence:
    """The cases of figure 3, of which so many gain."""
    places = [
        (target, parts)
        for target in ("de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
        for parts in range(1, 10)
    ]
    return Evidence(
        searches=tuple(
            search(1.0 if i < better else -1.0, target=t, setting=MULTI, parts=p)
            for i, (t, p) in enumerate(places)
        )
    )


def japanese(parts8: float) -> Evidence:
    some = {"task": "ner", "target": "ja", "setting": MULTI}
    return Evidence(
        searches=(
            search(1.0, unpruned=parts8 - 1, parts=8, **some),
            search(1.0, unpruned=60.0, **some),
        )
    )


def controls(arm: str, value: float, task: str = "pos", low: float = 1.0) -> Evidence:
    """Eight searches with a control arm, all alike."""
    return Evidence(
        searches=tuple(search(low, target=t, task=task, **{arm: value}) for t in OTHERS[:8])
    )


def strings(*differences: float) -> Evidence:
    """Important layers keep more, minus fewer, at one percentage after another."""
    scores = []
    for n, difference in enumerate(differences):
        high, low = 8 - n // 2, 3 - n % 3
        for kept, value in (((high, low), 28.0 + difference), ((low, high), 28.0)):
            text = "per_layer {0}{1}/{1}{0}/{0}{1}".format(*kept)
            scores.append(fact("wmt14", text, value, 10.0 * (1 + n), "en-ru"))
    return facts(*scores)


def triples(*best: int, repeats: tuple[float, ...] = (-0.01, 0.0, 0.01)) -> Evidence:
    """By percentage, the block (0 to 2) that is best to keep fewest heads in; similar draws."""
    scores = []
    for few, winner in zip((4, 8, 12, 16), best, strict=False):
        for least in range(3):
            kept = [20, 20, 20]
            kept[least] = few
            text, value = "per_block " + "/".join(map(str, kept)), 29.0 if least == winner else 28.0
            scores += [fact("wmt14", text, value + more, 50.0 + few, "en-ru") for more in repeats]
    return facts(*scores)


def both_models(
    mbert: dict[str, Any],
    bert: dict[str, Any],
    full: tuple[float, float],
    tasks: tuple[str, ...] = FOUR,
) -> Evidence:
    return glue(mbert, tasks, MBERT, full[0]) + glue(bert, tasks, BERT, full[1])
