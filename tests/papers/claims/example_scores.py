"""Scores of single cells, written by hand."""

from itertools import count, cycle

from deadhead.papers.claims.evidence import Evidence
from deadhead.results import Score
from deadhead.tasks import task_of

MBERT, XLMR, BERT = "bert-base-multilingual-cased", "xlm-roberta-base", "bert-base-uncased"


CROSS, MULTI = "cross-lingual", "multi-lingual"


FOUR = ("mnli", "qqp", "qnli", "sst2")


_ids = count()


def fact(task, remove, value, share=None, target="en", model=BERT, **more):
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


def facts(*scores):
    return Evidence(scores=scores)


def glue(removed, tasks=FOUR, model=BERT, full=80.0):
    """Scores on tasks by removal: {"layers top 2": 70}, or with the share, {"random 50": (79, 50)}.

    A list has scores for the tasks in turn.
    """
    rows = [] if full is None else [fact(task, "none", full, model=model) for task in tasks]
    for remove, text in removed.items():
        values, share = text if isinstance(text, tuple) else (text, None)
        scores = cycle(values if isinstance(values, list) else [values])
        rows += [
            fact(task, remove, value, share, model=model)
            for task, value in zip(tasks, scores, strict=False)
        ]
    return Evidence(scores=tuple(rows))
