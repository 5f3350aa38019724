"""The steps of a trial. Each takes the state and the trial, and changes the state.

The model in the state is the user's own kind of model, changed in place: trained, scored, cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deadhead import files
from deadhead.errors import DeadheadError
from deadhead.studies.store.folder import plain, prepare
from deadhead.studies.trial import SPLITS, Trial, removal

from . import models as material
from .state import State

EVERY = 1.0  # seconds between words on how it goes
FIRST = "@1"  # behind the name of a split: scored with the weights after epoch 1


class TrainingFailed(DeadheadError):
    """A training that did not come to its end, such as one whose loss became NaN."""


def pretrain(state: State, trial: Trial) -> None:
    """Train a translation model from scratch, with a vocabulary of its own."""
    chosen = dict(trial.get("pretrain") or {})
    model = material.from_scratch(state, trial, chosen["seed"], chosen.pop("vocabulary"))
    _train(state, trial, model, chosen)


def finetune(state: State, trial: Trial) -> None:
    """Train the model on the trial's languages; score it after every epoch on their dev data."""
    model = material.model(state, trial)
    chosen = dict(trial.get("finetune") or {})
    chosen.pop("first", None)
    _begin(state, trial, model)
    _train(
        state,
        trial,
        model,
        {**chosen, "seed": trial.seed_of(state.at)},
        trial.keeps_first(state.at),
    )


def _train(
    state: State, trial: Trial, model: Any, chosen: dict[str, Any], first: bool = False
) -> None:
    """One training with these settings, from the first update of their schedule on."""
    from deadhead.training import Settings
    from deadhead.training import finetune as train

    languages, labels = trial.languages(state.at), material.labels_of(model, trial)
    weights, scored, bleu_every = (
        chosen.pop("weights", "last"),
        chosen.pop("scored", "dev"),
        chosen.pop("bleu_every", None),
    )
    data = material.encoded(state, trial, languages, "train", labels)
    dev = None
    if scored != "none":
        split, task = (scored, None) if scored in SPLITS else ("dev", scored)
        dev = material.encoded(state, trial, languages, split, labels, task=task)
    settings = Settings.from_dict(chosen)
    folder = _checkpoint(state, trial, settings.epochs)
    history = train(
        model, data, settings, dev=dev, tokenizer=material.tokenizer(state, trial) if bleu_every else None, bleu_every=bleu_every,
        folder=folder, keep_first=first, progress=_now_and_then(state),
    )  # fmt: skip
    state.epochs += [
        {"step": state.at, "number": e.number, "loss": e.loss, **e.scores} for e in history.epochs
    ]
    state.cost["examples/s"] = round(history.epochs[-1].speed, 1) if history.epochs else 0.0
    failed = history.state == "failed"
    if notes := [
        *history.notes,
        *([history.reason] if history.reason and not failed else []),
    ]:  # the reason it stopped early
        state.details["training notes"] = notes
    if failed:
        raise TrainingFailed(f"the training failed: {history.reason}")
    if weights == "best":
        history.restore(model, "best")
        state.details["best epoch"] = history.best
    if first:
        state.kept["first"] = _in_memory(history.weights["first"])
    if folder is not None:
        files.remove_folder(folder)


def rank(state: State, trial: Trial) -> None:
    """Score every head on the source languages."""
    from deadhead.rank_data import keeps_order
    from deadhead.rankers import rank as score
    from deadhead.tasks import batches

    model = material.model(state, trial)
    options = dict(trial.get("rank") or {})
    method, split = options.pop("method", "gradient"), options.pop("split", "dev")
    options.pop("merge", None)
    size, examples = options.pop("batch", 32), options.pop("examples", None)
    languages = trial.languages(state.at)
    data = material.encoded(
        state, trial, languages, split, material.labels_of(model, trial), examples
    )
    made = batches(data, size=size, sort=not keeps_order(options), device=material.device())
    facts = {
        "task": trial.get("task"),
        "lang": "+".join(languages),
        "split": split,
        "fingerprint": data.data.fingerprint,
    }

    def progress(done: int, total: int, note: str = "") -> None:
        say(f"ranking {done}/{total} {note}".strip())

    say = _spaced(state)
    state.ranking = score(
        model, made, method, seed=trial.seed_of(state.at), progress=progress, data=facts, **options
    )


def rank_each(state: State, trial: Trial) -> None:
    """Train and rank on each source language alone, and merge the rankings; each is shared with whoever ranks on that language."""
    from deadhead.ranking import Ranking
    from deadhead.ranking.merge import merge

    with ExitStack() as stack:
        folder = state.folder or prepare(Path(stack.enter_context(TemporaryDirectory())))
        rankings = []
        for source in trial.sources:
            key = source.keys[1]
            record = state.run(source, folder, source.work, state.tell)
            if record.error is not None:
                raise TrainingFailed(
                    f"the ranking on {source.get('source')} failed:\n{record.error}"
                )
            state.data.update(record.data)
            rankings.append(Ranking.load(folder / "shared" / key / "ranking.json"))
    state.ranking = merge(rankings, (trial.get("rank") or {}).get("merge", "md"))


def restart(state: State, trial: Trial) -> None:
    """Forget the model: the next step begins with the weights the trial began with. A ranking stays."""
    state.model = state.weights = None
    state.epochs, state.removed, state.kept = [], [], {}
    state.details.pop("measures", None)


def prune(state: State, trial: Trial) -> None:
    """Cut out the heads the strategy picks."""
    from deadhead.heads import discover
    from deadhead.heads import prune as cut
    from deadhead.strategies import choose

    found = removal(trial.get("remove"))
    if found is None:
        return
    strategy, amount, options = found
    model = material.model(state, trial)
    layout = discover(model)
    scores = None if state.ranking is None else state.ranking.scores
    heads = choose(strategy, layout, amount, seed=trial.get("draw", 0), scores=scores, **options)
    cut(model, heads, **(trial.get("prune") or {}))
    state.kept.pop("first", None)  # of the whole model
    state.removed += [str(head) for head in layout.check(heads)]
    state.cost["heads before"], state.cost["parameters after"] = len(layout), material.count(model)


def evaluate(state: State, trial: Trial) -> None:
    """Score the model on every target language and split; keep what it predicted."""
    from deadhead.heads.verify.bench import most_held
    from deadhead.training.evaluation import evaluate as score

    model = material.model(state, trial)
    labels = material.labels_of(model, trial)
    signatures: set[str] = set()  # of BLEU, one for each way of cutting texts into words

    def scored(mark: str) -> None:
        for split in trial.get("splits"):
            state.tell(f"scoring {split}{mark}")
            sets = {
                lang: material.encoded(state, trial, [lang], split, labels)
                for lang in trial.get("targets")
            }
            folder = (
                None
                if state.folder is None
                else _predictions(state.folder, trial, f"{split}{mark}")
            )
            found = score(model, sets, tokenizer=material.tokenizer(state, trial), folder=folder)
            signatures.update(metrics.signature for metrics in found.values() if metrics.signature)
            for lang, metrics in found.items():
                if strange := material.untrained(trial, state.at, sets[lang]):
                    state.details.setdefault("labels never trained on", {})[f"{lang}/{split}"] = (
                        strange
                    )
                state.metrics.update(
                    {
                        f"{lang}/{split}{mark}/{name}": float(value)
                        for name, value in metrics.items()
                    }
                )

    scored("")
    if "first" in state.kept:
        with _first_epoch(state, model):
            scored(FIRST)
    if signatures:
        state.details["signature"] = "; ".join(sorted(signatures))
    state.cost["memory MiB"] = int(most_held(model.device) / 2**20)


def measure(state: State, trial: Trial) -> None:
    """Measure what the trial asks for, before and after training; also on the weights after epoch 1, where they were kept."""
    from deadhead.measures import measure as named

    model, given = material.model(state, trial), material.given(state, trial)
    made = {name: named(name, **options) for name, options in trial.measures.items()}

    def found() -> dict[str, Any]:
        state.tell(f"measuring {', '.join(made)}")
        return {name: one(model, given) for name, one in made.items()}

    stages = state.details.setdefault("measures", {})
    stages["after" if "finetune" in trial.before(state.at) else "before"] = found()
    if "first" in state.kept:
        with _first_epoch(state, model):
            stages["first"] = found()


def _begin(state: State, trial: Trial, model: Any) -> None:
    """Before a training: keep the weights of the heads, if a change from them is to be measured."""
    state.kept.pop("first", None)
    if (
        "finetune" not in trial.before(state.at)
        and "weights" in trial.measures
        and "measure" in trial.steps[state.at :]
    ):
        from deadhead.measures.weights import head_weights

        state.kept["began"] = head_weights(model)


def _in_memory(weights: Any) -> dict[str, Any]:
    from deadhead.training.history import read

    return read(weights) if isinstance(weights, str | Path) else dict(weights)


@contextmanager
def _first_epoch(state: State, model: Any) -> Iterator[None]:
    """The model as it was after epoch 1, and afterwards as it is."""
    from deadhead.training.history import put
    from deadhead.training.update import stored

    held = {name: tensor.detach().clone() for name, tensor in stored(model)}
    put(model, _in_memory(state.kept["first"]))
    try:
        yield
    finally:
        put(model, held)


def _checkpoint(state: State, trial: Trial, epochs: int) -> Path | None:
    """Where a training of several epochs leaves what it needs to go on after a kill."""
    if state.folder is None or epochs < 2:
        return None
    own = f"{trial.id}-{state.at}"
    folder = (
        state.folder
        / "training"
        / (trial.keys[state.at] if trial.steps[state.at] == "pretrain" else own)
    )  # any trial may go on with it
    plain(folder)
    return folder


def _predictions(folder: Path, trial: Trial, split: str) -> Path:
    home = folder / "predictions" / trial.id
    plain(home)
    if (home / split).is_dir():
        files.remove_drafts(home / split)  # of a run that was killed, or met a full disk
    return home / split


def _now_and_then(state: State) -> Callable[[Any], None]:
    say = _spaced(state)
    return lambda tick: say(tick)


def _spaced(state: State) -> Callable[[Any], None]:
    """Pass on a word to whoever watches, but not more often than anyone reads."""
    last = 0.0

    def say(text: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            state.tell(str(text))

    return say
