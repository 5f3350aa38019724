"""The step `evaluate`: score the model on every target language and split; keep its predictions."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from deadhead import files
from deadhead.studies.fields import SPLITS, TARGETS
from deadhead.studies.step import Pass, Read, Step
from deadhead.studies.store.folder import refuse_links
from deadhead.studies.trial import Trial

from .state import State
from .training import Training, at_both_epochs

# Forward passes that take as long as to translate with a beam of 4 (on an H200).
DECODED = 15

FIRST = "@1"  # behind the name of a split: scored with the weights after epoch 1


class Evaluate(Step):
    """Score the languages of `targets`."""

    name = "evaluate"
    fields = (TARGETS, SPLITS)
    inspects = True

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        yield from product([trial.task], trial.targets, trial.splits)

    def passes(self, trial: Trial, place: int) -> Iterator[Pass]:
        from deadhead.tasks import task_of

        once = DECODED if task_of(trial.task).kind == "translate" else 1
        first = Training.parse(trial.get("finetune")).first  # scored after epoch 1 too
        yield from ((read, once * (1 + first), None) for read in self.reads(trial, place))

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.saved.bench import peak_bytes
        from deadhead.training.evaluation import evaluate

        from . import models

        model = models.model(state, trial)
        signatures: set[str] = set()  # BLEU has one for each tokenization

        def score(first: bool) -> None:
            for split in trial.splits:
                name = f"{split}{FIRST if first else ''}"
                state.tell(f"scoring {name}")
                sets = {
                    lang: models.encoded(state, trial, split, languages=[lang])
                    for lang in trial.targets
                }
                folder = state.folder and _predictions(state.folder, trial, name)
                tokenizer = models.tokenizer(state, trial)
                scores = evaluate(model, sets, tokenizer=tokenizer, folder=folder, progress=False)
                for lang, metrics in scores.items():
                    if metrics.signature:
                        signatures.add(metrics.signature)
                    for metric, value in metrics.items():
                        state.metrics[f"{lang}/{name}/{metric}"] = float(value)

        at_both_epochs(state, model, score)
        if signatures:
            state.details["signature"] = "; ".join(sorted(signatures))
        state.cost["memory MiB"] = int(peak_bytes(model.device) / 2**20)


def _predictions(study: Path, trial: Trial, name: str) -> Path:
    """The folder for predictions, without drafts of a run that was killed or had no space."""
    home = study / "predictions" / trial.id
    refuse_links(home)
    if (home / name).is_dir():
        files.remove_drafts(home / name)
    return home / name


STEP = Evaluate()
