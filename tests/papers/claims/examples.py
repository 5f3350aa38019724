"""Small evidence, written by hand: scores, searches, rankings and measures."""

from example_scores import BERT, MBERT, fact, facts, glue

from deadhead.papers.claims.evidence import Evidence
from deadhead.results import Measurement

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
)  # one of the five numbers by class


def bleu(**by_share):
    """Curves of a translation model with 30 BLEU unpruned: s60=29.9 is its BLEU without 60 %."""
    scores = []
    for pair in ("en-ru", "en-de"):
        scores += [
            fact("wmt14", f"random {name[1:]} per=block", value, float(name[1:]), pair)
            for name, value in by_share.items()
        ]
        scores.append(fact("wmt14", "none", 30.0, target=pair))
    return facts(*scores)


def xnli(removed, full=80.0):
    """Scores in the languages SPOKEN by removal; a list is by SVO, SOV, VSO, Turkish, Swahili."""
    scores = [fact("xnli", "none", full, target=target, model=MBERT) for target in SPOKEN]
    for remove, text in removed.items():
        values, share = text if isinstance(text, tuple) else (text, None)
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


def layers(**removed):
    """top2=70 as {"layers top 2": 70}; ends4 is both ends."""
    named = {}
    for name, value in removed.items():
        word, n = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        named[
            f"layers top {n // 2} + bottom {n // 2}" if word == "ends" else f"layers {word} {n}"
        ] = value
    return named


def change(values, name, stage, remove, model, trial, heads=0):
    """One number for each layer, of its one head; `heads` layers above have none left."""
    removed = tuple(f"encoder.{len(values) + i}.0" for i in range(heads))
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


def weights(*values, remove="layers top 1", trial="w"):
    return Evidence(
        measures=(change(list(values), "weights", "after", remove, BERT, trial, heads=1),)
    )


def all_sets(*values):
    """The same change of weights in a run for each of the 18 sets of layers."""
    return sum(
        (weights(*values, remove=f"layers top {n}", trial=f"w{n}") for n in range(1, 19)),
        Evidence(),
    )


def scattered(*scores):
    """A run for each list of changes, one number for each layer."""
    return sum(
        (weights(*values, remove="random 10", trial=f"w{n}") for n, values in enumerate(scores)),
        Evidence(),
    )


def entropy(*moved):
    """Three draws that hardly differ."""
    measures = []
    for trial, more in (("e1", -0.01), ("e2", 0.0), ("e3", 0.01)):
        measures.append(change([1.0] * len(moved), "entropy", "before", "random 90", MBERT, trial))
        after = [1.0 + m + (more if i == len(moved) - 1 else 0.0) for i, m in enumerate(moved)]
        measures.append(change(after, "entropy", "first", "random 90", MBERT, trial))
    return Evidence(measures=tuple(measures))


def embeddings(close, together, apart, silhouettes=(0.5, 0.1)):
    """Distances within en, es, de, vi; of hi and ur; of sw, tr, ar; and 1 elsewhere."""

    def between(pair):
        if len(pair) == 1:
            return 0.0
        if pair & {"sw", "tr", "ar"}:
            return apart
        if pair <= {"en", "es", "de", "vi"}:
            return close
        return together if pair == {"hi", "ur"} else 1.0

    distances = [[between({one, other}) for other in SPOKEN] for one in SPOKEN]
    centroids = {"languages": list(SPOKEN), "distances": distances}
    fields = {"model": MBERT, "task": "xnli", "remove": "random 50", "name": "embeddings"}
    stages = zip(("before", "first"), silhouettes, strict=True)
    return Evidence(
        measures=tuple(
            Measurement(
                trial="x", stage=stage, values={"silhouette": s, "centroids": centroids}, **fields
            )
            for stage, s in stages
        )
    )


def epochs(first, last, **others):
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


def draws(task, target, model, sd):
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


def across_and_within(across, within):
    """So much is lost, of 80 points, for each tenth of the heads, on XNLI and on GLUE."""
    tenths = range(10, 100, 10)
    return xnli({f"random {p}": (80 - across * p / 10, p) for p in tenths}) + glue(
        {f"random {p}": (80 - within * p / 10, p) for p in tenths}, model=MBERT
    )
