"""Evidence of one model or task under the name of another."""

from dataclasses import replace

from deadhead.papers.claims import all_claims

CLAIMS = all_claims()


PARTS = ("scores", "searches", "merged", "measures", "rankings", "rhos")


MINE = "somebody/my-encoder"


def recast(evidence, models=None, tasks=None):
    """The same numbers, found on other models or tasks."""

    def other(entry):
        return replace(
            entry,
            model=(models or {}).get(entry.model, entry.model),
            task=(tasks or {}).get(entry.task, entry.task),
        )

    return replace(evidence, **{part: tuple(map(other, getattr(evidence, part))) for part in PARTS})
