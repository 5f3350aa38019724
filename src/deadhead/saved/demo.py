"""The numbers of `deadhead demo`: half of a tagger removed by choice, and half at random."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.numerics import fixed
from deadhead.world import LANGUAGES, MODELS

TASK, CORPUS = "pos", "world"
SHARE = 0.5  # share of the heads, and of the neurons, to remove
METHODS = {"chosen": "auto", "random": "random"}  # what is removed -> the method of `shrink`
INPUTS = (32, 64)  # examples and tokens of the inputs that are timed
SECONDS = 4.0  # all rounds of the timing, roughly


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo measured. Its models are `full`, `chosen` and `random`."""

    languages: tuple[str, ...]
    trained: int  # English sentences
    calibrated: int  # examples that the ranking and the removal read
    tested: int  # sentences, in each language
    metric: str
    ranking: Any  # all heads, by `gradient`
    scores: Mapping[str, Mapping[str, float]]  # model -> language -> metric
    before_repair: Mapping[str, Mapping[str, float]]  # the same of `chosen` and `random`
    sizes: Mapping[str, Mapping[str, int]]  # model -> heads, neurons, parameters, macs
    milliseconds: Mapping[str, float]  # model -> one run
    inputs: tuple[int, int]  # examples, and tokens of each, in the timed run
    removed: tuple[Head, ...]  # from `chosen`
    folders: Mapping[str, Path]  # `tagger` (the full model) and `smaller` (the chosen half)

    def mean(self, model: str) -> float:
        """Return the mean score over the languages."""
        return sum(self.scores[model].values()) / len(self.languages)

    def speed(self, model: str) -> float:
        """Return how many times as fast as the full model this one is."""
        return self.milliseconds["full"] / self.milliseconds[model]

    def to_dict(self) -> dict[str, Any]:
        folders = {name: str(folder) for name, folder in self.folders.items()}
        removed = [str(head) for head in self.removed]
        ranking = self.ranking.to_dict()
        return {**vars(self), "ranking": ranking, "removed": removed, "folders": folders}


# one thread is as fast for a tiny model, and other programs slow its times less
@fixed()
def run_demo(
    out: Path,
    *,
    sentences: int = 800,
    calibrated: int = 400,
    tested: int = 150,
    say: Callable[[str], None] = lambda text: None,
) -> Demo:
    """Fine-tune the bundled encoder, rank its heads, and remove half by choice and at random.

    Args:
        sentences: to train on, in English.
        calibrated: of those, how many the ranking and the removal read.
        tested: sentences of the test data of each language.
        say: called with a line before each step.
    """
    from deadhead.heads import save
    from deadhead.heads.layers import copy_with_same_weights
    from deadhead.rankers import rank
    from deadhead.shrinking import shrink
    from deadhead.shrinking.latency import time_models
    from deadhead.tasks import batches, draw_examples, load_data
    from deadhead.training.models import encode_for

    from .rank_data import main_scores

    load = partial(load_data, TASK, root=CORPUS)
    say(f"Fine-tune the bundled encoder on {sentences:,} English sentences")
    train = draw_examples(load("en", "train"), sentences, 0)
    model, tokenizer = _tagger(train)
    tests = {
        language: encode_for(model, tokenizer, draw_examples(load(language, "test"), tested, 0))
        for language in LANGUAGES
    }
    few = draw_examples(train, calibrated, 0)
    calibration = [*batches(encode_for(model, tokenizer, few), size=32)]
    say(f"Rank its heads on {len(few):,} of these sentences")
    ranking = rank(model, calibration, "gradient", progress=False)
    models, reports = {"full": copy_with_same_weights(model)}, {}
    score = partial(main_scores, encoded=tests, tokenizer=tokenizer)
    for name, method in METHODS.items():
        say(f"Remove half of the heads and neurons ({name}), without training")
        models[name] = copy.deepcopy(model)
        reports[name] = shrink(
            models[name], calibration, heads=SHARE, neurons=SHARE, method=method, score=score,
            progress=False,
        )  # fmt: skip
    say("Time the three models in turns")
    seconds = time_models(
        [small.eval() for small in models.values()], calibration[0], INPUTS, limit=SECONDS
    )
    full, cut, repaired = zip(*(r.scores.values() for r in reports.values()), strict=True)
    sizes = {name: report.sizes for name, report in reports.items()}
    sizes_of_full = {kind: sizes["chosen"][kind][0] for kind in sizes["chosen"]}
    return Demo(
        languages=LANGUAGES,
        trained=len(train),
        calibrated=len(few),
        tested=len(next(iter(tests.values())).data),
        metric=train.task.metric,
        ranking=ranking,
        scores={"full": full[0], **dict(zip(METHODS, repaired, strict=True))},
        before_repair=dict(zip(METHODS, cut, strict=True)),
        sizes={"full": sizes_of_full}
        | {name: {kind: pair[1] for kind, pair in of.items()} for name, of in sizes.items()},
        milliseconds=dict(zip(models, (1e3 * value for value in seconds), strict=True)),
        inputs=INPUTS,
        removed=reports["chosen"].choice.heads,
        folders={
            name: save(models[model], out / name, tokenizer)
            for name, model in {"tagger": "full", "smaller": "chosen"}.items()
        },
    )


def _tagger(train: Any) -> tuple[Any, Any]:
    """Return the bundled encoder, fine-tuned for an epoch, and its tokenizer."""
    from deadhead.training import Settings, finetune
    from deadhead.training.models import encode_for, fitting_tokenizer

    from .finetune import start

    name = str(MODELS / "encoder")
    model = start(name, train, 0).model
    tokenizer = fitting_tokenizer(model, name)
    history = finetune(
        model, encode_for(model, tokenizer, train), Settings(epochs=1, rate=2e-3), progress=False
    )
    if history.state != "done":
        raise DeadheadError(f"the training failed: {history.reason}", "repeat the command")
    return model, tokenizer
