"""The one training loop, for classifiers, taggers and translators alike.

    history = finetune(model, train, preset("contributions"), dev=dev, folder="out/trial-7")

Cut heads out before training (`prune`), and the small model trains in less time; `masked` closes
their gates instead and gives the same losses (dropout in the attention aside, which draws other
numbers when there are fewer heads).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deadhead.device import computing, device_named
from deadhead.errors import DataError, DeadheadError
from deadhead.heads import discover, gated
from deadhead.layout import Head
from deadhead.numerics import computes_half, kernels
from deadhead.tasks import batches
from deadhead.tasks.encoding.encode import Encoded

from .averaging import Recent
from .check import check
from .checkpoint import Folder, identity, random_state, set_random_state
from .feed import Feed, Shape, filled
from .graphs import Graphs
from .history import Epoch, History, put, read
from .progress import Progress, Tick
from .scoring import Dev, Score, Scorer, dev_sets, scorer
from .settings import Settings, SettingsError
from .update import Updater, lower
from .watch import WINDOW, Watch


class Failed(Exception):
    """The training cannot go on; the record says why."""


def finetune(
    model: Any,
    train: Encoded,
    settings: Settings | None = None,
    *,
    score: Score | None = None,
    dev: Dev | None = None,
    tokenizer: Any = None,
    bleu_every: int | None = None,
    folder: str | Path | None = None,
    keep_first: bool = False,
    masked: Iterable[Head | str] = (),
    device: str | torch.device | None = None,
    each: Callable[[Epoch], None] | None = None,
    progress: bool | Callable[[Tick], None] = True,
    graphs: bool = True,
    name: str = "",
) -> History:
    """Train the model in place. It ends with the weights of the last epoch, or the mean of the last `average`.

    `history.restore(model)` puts the best back.

    Args:
        score: called with the model after every epoch; a number, or numbers by name of which the first decides.
        dev: without `score`, the metrics of the task on this data; of translations, how likely they are. Of several sets by
            name, the mean over them decides.
        tokenizer, bleu_every: of translations, decode the dev data every so many epochs for its BLEU, which takes its time.
        folder: keeps the weights and a state to go on from; a training that was killed goes on when called again.
        keep_first: keep the weights after the first epoch too.
        masked: heads whose gates stay closed while it trains.
        device: where to train; without it, where the model is.
        each: called with the record of every epoch once it is kept.
        progress: a live line where there is a terminal, or a function that is told of every update.
        graphs: on a CUDA device, capture updates as CUDA graphs.
        name: of the trial, in front of the progress line.
    """
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        raise SettingsError(
            f"the settings are a {type(settings).__name__}.", "give Settings(...) or preset(...)"
        )
    notes = check(model, train, settings, dev_sets(dev))
    scored = scorer(score, dev, tokenizer, bleu_every)
    if settings.patience is not None and scored is None:
        raise SettingsError(
            f"patience is {settings.patience}, and nothing is scored.",
            "give finetune dev=encoded or score=function",
        )
    closed = discover(model).check(masked) if masked else ()
    place = device_named(str(device)) if device is not None else next(model.parameters()).device
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    model.to(place)
    history = History(settings, notes=notes)
    if any(p.dtype in (torch.bfloat16, torch.float16) for p in model.parameters()):
        lower(model, torch.float32)
        history.note("the weights were of half precision: they are trained in float32")
    store = None
    if folder is not None:
        shapes = [(n, list(p.shape)) for n, p in model.named_parameters()]
        store = Folder(
            folder,
            identity(
                settings.to_dict(),
                train.fingerprint,
                [str(h) for h in closed],
                shapes,
                _heads(model),
            ),
        )
    half = settings.precision == "bf16" and place.type == "cpu"
    with (
        torch.random.fork_rng([place] if place.type == "cuda" else []),
        _closed(model, closed, place),
        computing(model, half),
    ):
        history.kernels = _kernels(place)
        if half and not computes_half():
            history.note("oneDNN has no kernels for bfloat16 on this CPU: trained without oneDNN")
        run = _Run(model, train, settings, history, place, scored, store, keep_first, each)
        return run(progress, graphs and place.type == "cuda", name)


def _kernels(place: torch.device) -> str:
    """What computes this training, for its record."""
    if place.type == "cuda":
        return torch.cuda.get_device_name(place)
    count = torch.get_num_threads()
    return f"{kernels()}, {count} thread{'s' * (count > 1)}" if place.type == "cpu" else place.type


def _heads(model: Any) -> list[str]:
    """The heads that are left, since two models cut differently may have the same shapes; none of a model whose heads are not found."""
    try:
        return [str(head) for head in discover(model)]
    except DeadheadError:
        return []


@contextmanager
def _closed(model: Any, heads: tuple[Head, ...], device: torch.device) -> Iterator[None]:
    """Gates on the device, so that nothing is moved there while it trains."""
    if not heads:
        yield
        return
    touched = {(h.block, h.layer) for h in heads}
    gates = {
        h: torch.tensor(0.0 if h in heads else 1.0, device=device)
        for h in discover(model)
        if (h.block, h.layer) in touched
    }
    with gated(model, gates):
        yield


class _Run:
    """One training under way."""

    def __init__(
        self, model: Any, train: Encoded, settings: Settings, history: History, device: torch.device, score: Scorer | None,
        folder: Folder | None, keep_first: bool, each: Callable[[Epoch], None] | None = None,
    ):  # fmt: skip
        self.model, self.train, self.settings, self.history, self.device = (
            model,
            train,
            settings,
            history,
            device,
        )
        self.score, self.folder, self.keep_first, self.each = score, folder, keep_first, each
        self.parts = (
            settings.accumulate
            if settings.tokens is not None
            else min(settings.accumulate, settings.batch)
        )
        self.recent = Recent(settings.average, folder) if settings.average > 1 else None
        self.feed = Feed(train, device)
        self.classes = (
            len(train.labels)
            if self.feed.labels != "text"
            else int(getattr(model.config, "vocab_size", 2))
        )

    def __call__(self, progress: bool | Callable[[Tick], None], graphs: bool, name: str) -> History:
        begun = self.folder.history() if self.folder else None
        if begun is not None and begun.state != "running":
            if "last" in begun.weights:
                put(self.model, read(begun.weights["last"]))
            return begun
        torch.manual_seed(self.settings.seed)
        self.updater = Updater(self.model, self.feed, self.settings)
        try:
            first = self._resume()
            self._plan()
            self.graphs = (
                Graphs(self.updater, max(self.updates), self.rows)
                if graphs and self.settings.tokens is None
                else None
            )
            self.watch = Watch(
                self.classes, min(WINDOW, max(10, self.updates[0]), sum(self.updates))
            )
            self.watch.all(self.history.losses)
            with Progress(
                progress, self.settings.epochs, self.updates[0], len(self.train), name
            ) as self.progress:
                for epoch in range(first, self.settings.epochs + 1):
                    if not self.history.reason:  # else it was to stop early
                        self._epoch(epoch)
            self.history.state = "done"
        except Failed as problem:
            self.history.state, self.history.reason, self.history.losses = (
                "failed",
                str(problem),
                self.watch.every,
            )
        finally:
            self.updater.close()
            self.model.eval()
        self._finish()
        return self.history

    def _resume(self) -> int:
        """Go on from the folder, if there is something; the epoch to begin with."""
        if self.folder is None:
            return 1
        found = self.folder.load()
        for text in self.folder.damage:
            self.history.note(text)
        if found is None:
            self.folder.write(self.history)
            return 1
        now = self.history.kernels
        self.history, weights, state = found
        if self.history.kernels not in ("", now):
            before = (
                f"epochs 1 to {len(self.history.epochs)} were computed with {self.history.kernels}"
            )
            self.history.note(
                f"{before}, those after with {now}: last digits may differ from a training in one go"
            )
        self.history.kernels = now
        self.updater.restore(weights, state)
        set_random_state(state, self.device)
        self.parts = max(
            self.parts, int(state.get("parts", 1))
        )  # with dropout, other parts would draw other numbers
        return len(self.history.epochs) + 1

    def _plan(self) -> None:
        """How many updates each epoch has, and their learning rates."""
        each = range(1, self.settings.epochs + 1)
        if self.settings.tokens is None:
            self.updates = [math.ceil(len(self.train) / self.settings.batch) for _ in each]
        else:
            self.updates = [len(self._batches(epoch)) for epoch in each]
        total = sum(self.updates)
        self.rates = self.settings.rates(total)
        warm = self.settings.warmup_updates(total)
        if warm > total:
            reached = f"{self.rates.max():.2g} of {self.settings.rate:.2g}"
            self.history.note(
                f"the warm-up of {warm} updates is longer than the training, which has {total}: the rate rises to {reached}"
            )

    def _batches(self, epoch: int) -> tuple[np.ndarray, ...]:
        s = self.settings
        shuffles = s.sampler == "shuffled"
        seed = f"{s.seed}/{epoch}" if shuffles else None
        return batches(
            self.train,
            size=s.batch,
            tokens=s.tokens,
            seed=seed,
            sort=shuffles and s.by_length,
            both=True,
        ).numbers

    def _epoch(self, number: int) -> None:
        """Train one epoch, score it and keep what is to be kept."""
        begun = time.perf_counter()
        plan = self._batches(number)
        start = sum(self.updates[: number - 1])
        self.model.train()
        run = self._stepwise if self.graphs is None else self._captured
        losses = run(number, plan, self.rates[start : start + len(plan)])
        self.history.losses += losses
        took = time.perf_counter() - begun
        record = Epoch(
            number, sum(losses) / len(losses), len(losses), len(self.train), seconds=round(took, 4)
        )
        if self.score is not None:
            begun = time.perf_counter()
            record.scores = self._scored(number)
            record.scoring = round(time.perf_counter() - begun, 4)
        best = self.history.take(record)
        patience = self.settings.patience
        if patience is not None and number - (self.history.best or 0) >= patience:
            self.history.reason = (
                f"stopped early: no better {self.history.metric} for {patience} epochs"
            )
        self._keep(number, best)
        if self.each is not None:
            self.each(record)

    def _stepwise(
        self, epoch: int, plan: tuple[np.ndarray, ...], rates: np.ndarray, begin: int = 0
    ) -> list[float]:
        """The updates of an epoch one by one."""
        found: list[Any] = []
        at_once = self.device.type == "cpu"  # elsewhere a look at the loss would hold up the device
        for i in range(begin, len(plan)):
            loss = self._update(plan[i], float(rates[i]))
            found.append(float(loss) if at_once else loss)
            if at_once:
                self._look(found[-1])
            self.progress(epoch, i + 1, found[-1] if at_once else None)
        return found if at_once else self._seen(torch.stack(found).cpu().numpy())

    def _update(self, numbers: np.ndarray, rate: float) -> torch.Tensor:
        """One update, in more parts if memory runs out."""
        while True:
            laid, shapes = self._laid(numbers)
            before = random_state(self.device)
            try:
                loss = self.updater.backward(
                    torch.from_numpy(laid).to(self.device, non_blocking=True), shapes
                )
            except RuntimeError as problem:
                self._halve(problem, max(shape.rows for shape in shapes), len(laid))
                set_random_state(before, self.device)
                continue
            self.updater.apply(loss, rate)
            return loss

    def _laid(self, numbers: np.ndarray) -> tuple[np.ndarray, tuple[Shape, ...]]:
        """A batch as it is run: as it is on a CPU; elsewhere made up to one of few shapes, be it captured or not."""
        if self.device.type == "cpu" and self.graphs is None:
            return numbers, tuple(
                self.feed.shape(part) for part in np.array_split(numbers, self.parts) if len(part)
            )
        shape = self.feed.shape(numbers, few=True)
        rows = (
            self.rows
            if self.settings.tokens is None
            else math.ceil(len(numbers) / self.parts) * self.parts
        )
        return filled(numbers, rows), (
            Shape(rows // self.parts, shape.width, shape.label_width),
        ) * self.parts

    @property
    def rows(self) -> int:
        """Windows of a full batch, made up so that its parts are of one size."""
        return math.ceil(min(self.settings.batch, len(self.train)) / self.parts) * self.parts

    def _halve(self, problem: RuntimeError, rows: int, batch: int) -> None:
        """Memory ran out with so many rows at a time: take half of them, or give up at one."""
        if not isinstance(problem, torch.OutOfMemoryError) and "can't allocate memory" not in str(
            problem
        ):
            raise problem
        self.updater.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if rows <= 1:
            raise Failed("out of memory even with one window at a time") from problem
        self.parts = math.ceil(batch / (rows // 2))
        self.history.note(
            f"out of memory with {rows} windows at a time: batches are run in {self.parts} parts of up to {rows // 2}"
        )

    def _captured(self, epoch: int, plan: tuple[np.ndarray, ...], rates: np.ndarray) -> list[float]:
        """The updates of an epoch as graphs; the host only says which comes next."""
        losses, i = np.zeros(len(plan), np.float32), 0
        while self.graphs is not None and i < len(plan):
            begin, graphs = i, self.graphs
            laid = [self._laid(numbers) for numbers in plan[i:]]
            graphs.begin([numbers for numbers, _ in laid], rates[i:])
            for _, shapes in laid:
                try:
                    graphs(shapes)
                except RuntimeError as problem:  # this update has not happened
                    self._without(problem)
                    break
                i += 1
                self.progress(
                    epoch, i, self.history.epochs[-1].loss if self.history.epochs else None
                )
            losses[begin:i] = graphs.end(i - begin)
        found = self._seen(losses[:i])
        return found if i == len(plan) else found + self._stepwise(epoch, plan, rates, i)

    def _without(self, problem: RuntimeError) -> None:
        """An update could not be captured: in smaller parts if memory ran out, else without graphs from here on."""
        self.updater.forget()
        try:
            self._halve(problem, self.rows // self.parts, self.rows)
            self.graphs = Graphs(self.updater, max(self.updates), self.rows)
        except RuntimeError:
            told = str(problem).strip().split("\n")[0]
            self.history.note(
                f"updates are run one by one, since they could not be captured as a CUDA graph: {told}"
            )
            self.graphs = None

    def _seen(self, losses: np.ndarray) -> list[float]:
        found = [float(x) for x in losses]
        for loss in found:
            self._look(loss)
        return found

    def _look(self, loss: float) -> None:
        reason = self.watch.add(loss)
        if reason:
            done = len(self.watch.every) - 1
            epoch = int(np.searchsorted(np.cumsum(self.updates), done, side="right"))
            raise Failed(
                f"{reason} at update {done - sum(self.updates[:epoch]) + 1} of epoch {epoch + 1}, rate {self.rates[done]:.3g}; a smaller rate may help"
            )

    def _scored(self, epoch: int) -> dict[str, float]:
        before = random_state(self.device)
        self.model.eval()
        found = self.score(self.model, epoch)  # type: ignore[misc]
        after = random_state(self.device)
        if any(not torch.equal(before[k], after[k]) for k in before):
            set_random_state(
                before, self.device
            )  # how it is scored must not change how it is trained
        try:
            return (
                {k: float(v) for k, v in found.items()}
                if isinstance(found, Mapping)
                else {"score": float(found)}
            )
        except (TypeError, ValueError) as problem:
            raise DataError(
                f"score gave {found!r}.", "let it return a number, or numbers by name"
            ) from problem

    def _keep(self, epoch: int, best: bool) -> None:
        weights, kept = self.updater.weights(), self.history.weights
        names = [
            which
            for which, wanted in (
                ("first", self.keep_first and epoch == 1),
                ("best", best and self.score),
            )
            if wanted
        ]
        for which in names:
            if self.folder is None:
                kept[which] = {name: tensor.detach().clone() for name, tensor in weights.items()}
            else:
                self.folder.keep(which, weights)
        if self.recent is not None and (
            self.settings.patience or epoch > self.settings.epochs - self.settings.average
        ):
            self.recent.add(epoch, weights)
        if self.folder is not None:
            kept.update(self.folder.weights())
            self.folder.save(
                epoch,
                self.history,
                weights,
                {**self.updater.moments(), "parts": torch.tensor(self.parts)},
            )

    def _finish(self) -> None:
        kept = self.history.weights
        if self.history.state == "done":
            last = dict(self.updater.weights()) if self.recent is None else self.recent.mean()
            if self.recent is not None:
                put(self.model, last)
            if self.folder is not None:
                self.folder.keep("last", last)
                kept.update(self.folder.weights())
            else:
                kept["last"] = {name: tensor.detach().clone() for name, tensor in last.items()}
            if self.score is None and self.history.best:
                kept["best"] = kept["last"]
        if self.folder is not None:
            self.folder.write(self.history)
            self.folder.clear()
