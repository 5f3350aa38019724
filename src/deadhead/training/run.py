"""One training in progress: its epochs, what it keeps, and how it resumes."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deadhead.errors import DataError
from deadhead.tasks import Encoded, batches
from deadhead.tasks.encoding.feed import Feed, Shape, filled

from .checkpoint import Folder, copies, random_state, set_random_state
from .evaluation import Score
from .graphs import Graphs
from .history import Epoch, History, put
from .inference import is_out_of_memory
from .progress import Progress, Show
from .update import Updater

TOTAL = "total/"  # in the names of the sums of weights among the moments on disk
Plan = tuple[np.ndarray, ...]  # the numbers of the windows in each batch of an epoch


class Failed(Exception):
    """The training cannot continue; the record says why."""


@dataclass(kw_only=True)
class Run:
    """One training. Call it to train to the end."""

    model: Any
    train: Encoded
    history: History
    device: torch.device
    score: Score | None
    folder: Folder | None
    keep_first: bool
    each: Callable[[Epoch], None] | None = None

    def __post_init__(self) -> None:
        self.settings = settings = self.history.settings
        self.parts = settings.accumulate  # that a batch is run in
        if settings.tokens is None:
            self.parts = min(self.parts, settings.batch)
        self.total: dict[str, torch.Tensor] = {}  # the sum of the weights to be averaged
        self.feed = Feed(self.train, self.device)
        self.windows = len(self.train.learned)

    def __call__(self, progress: Show, graphs: bool, name: str) -> History:
        before = self.folder.history() if self.folder else None
        if before is not None and before.state != "running":
            before.restore(self.model, "last")
            return before
        torch.manual_seed(self.settings.seed)
        self.updater = self._new_updater()
        try:
            first = self._resume()
            self._plan()
            use_graphs = graphs and self.settings.tokens is None
            self.graphs = self._new_graphs() if use_graphs else None
            self.losses = [*self.history.losses]  # those of an epoch that fails, too
            epochs, updates = self.settings.epochs, self.updates[0]
            self.progress = Progress(progress, epochs, updates, self.windows, name)
            with self.progress:
                for epoch in range(first, epochs + 1):
                    if not self.history.reason:  # else it stopped early
                        self._epoch(epoch)
            self.history.state = "done"
        except Failed as problem:
            self.history.state = "failed"
            self.history.reason = str(problem)
            self.history.losses = self.losses
        finally:
            self.updater.close()
            self.model.eval()
        self._finish()
        return self.history

    def _new_updater(self) -> Updater:
        return Updater(self.model, self.feed, self.settings)

    def _new_graphs(self) -> Graphs:
        return Graphs(self.updater, max(self.updates), self.rows)

    def _resume(self) -> int:
        """Continue from the folder, if it has a state; returns the epoch to begin with."""
        if self.folder is None:
            return 1
        state = self.folder.load()
        if state is None:
            self.folder.write(self.history)
            return 1
        self.history, weights, moments = state
        self.updater.restore(weights, moments)
        set_random_state(moments, self.device)
        for name in weights.keys() & {name.removeprefix(TOTAL) for name in moments}:
            self.total[name] = moments[TOTAL + name].to(self.device)
        # with dropout, other parts would draw other numbers
        self.parts = max(self.parts, int(moments.get("parts", 1)))
        return len(self.history.epochs) + 1

    def _plan(self) -> None:
        """Compute how many updates each epoch has, and their learning rates."""
        if self.settings.tokens is None:
            self.updates = [math.ceil(self.windows / self.settings.batch)] * self.settings.epochs
        else:
            epochs = range(1, self.settings.epochs + 1)
            self.updates = [len(self._batches(epoch)) for epoch in epochs]
        total = sum(self.updates)
        self.rates = self.settings.rates(total)
        warmup = self.settings.warmup_updates(total)
        if warmup > total:
            longer = f"the warm-up of {warmup} updates is longer than the training"
            rates = f"{self.rates.max():.2g} of {self.settings.rate:.2g}"
            self.history.note(f"{longer} ({total} updates): the rate rises to {rates}")

    def _batches(self, epoch: int) -> Plan:
        s = self.settings
        shuffles = s.sampler == "shuffled"
        seed, sort = f"{s.seed}/{epoch}" if shuffles else None, shuffles and s.by_length
        return batches(
            self.train, size=s.batch, tokens=s.tokens, seed=seed, sort=sort, both=True
        ).numbers

    def _epoch(self, number: int) -> None:
        """Train one epoch, score it and keep its results."""
        begin = time.perf_counter()
        plan = self._batches(number)
        start = sum(self.updates[: number - 1])
        self.model.train()
        train = self._stepwise if self.graphs is None else self._captured
        losses = train(number, plan, self.rates[start : start + len(plan)])
        self.history.losses += losses
        mean = sum(losses) / len(losses)
        record = Epoch(number=number, loss=mean, updates=len(losses), examples=self.windows)
        record.seconds = round(time.perf_counter() - begin, 4)
        if self.score is not None:
            begin = time.perf_counter()
            record.scores = self._scores(self.score)
            record.scoring = round(time.perf_counter() - begin, 4)
        best = self.history.take(record)
        patience = self.settings.patience
        if patience is not None and number - (self.history.best or 0) >= patience:
            better = f"no better {self.history.metric} for {patience} epochs"
            self.history.reason = f"stopped early: {better}"
        self._keep(number, best)
        if self.each is not None:
            self.each(record)

    def _stepwise(self, epoch: int, plan: Plan, rates: np.ndarray, begin: int = 0) -> list[float]:
        """Run the updates of an epoch one by one."""
        losses: list[Any] = []
        on_cpu = self.device.type == "cpu"  # elsewhere, reading the loss waits for the device
        for i in range(begin, len(plan)):
            loss = self._update(plan[i], float(rates[i]))
            losses.append(float(loss) if on_cpu else loss)
            if on_cpu:
                self._check_loss(losses[-1])
            self.progress(epoch, i + 1, losses[-1] if on_cpu else None)
        return losses if on_cpu else self._checked(torch.stack(losses).cpu().numpy())

    def _update(self, numbers: np.ndarray, rate: float) -> torch.Tensor:
        """One update, in more parts if memory runs out."""
        while True:
            padded, shapes = self._padded(numbers)
            before = random_state(self.device)
            windows = torch.from_numpy(padded).to(self.device, non_blocking=True)
            try:
                loss = self.updater.backward(windows, shapes)
            except RuntimeError as problem:
                self._halve(problem, max(shape.rows for shape in shapes), len(padded))
                set_random_state(before, self.device)
                continue
            self.updater.apply(loss, rate)
            return loss

    def _padded(self, numbers: np.ndarray) -> tuple[np.ndarray, tuple[Shape, ...]]:
        """A batch and the shapes of its parts; on a GPU it is padded to one of few shapes."""
        if self.device.type == "cpu" and self.graphs is None:
            parts = [part for part in np.array_split(numbers, self.parts) if len(part)]
            return numbers, tuple(self.feed.shape(part) for part in parts)
        shape = self.feed.shape(numbers, few=True)
        rows = self.rows
        if self.settings.tokens is not None:
            rows = math.ceil(len(numbers) / self.parts) * self.parts
        part = Shape(rows // self.parts, shape.width, shape.label_width)
        return filled(numbers, rows), (part,) * self.parts

    @property
    def rows(self) -> int:
        """Windows of a full batch, rounded up so that its parts have the same size."""
        return math.ceil(min(self.settings.batch, self.windows) / self.parts) * self.parts

    def _halve(self, problem: RuntimeError, rows: int, batch: int) -> None:
        """Memory ran out with this many rows in a part: run half of them, or fail at one."""
        if not is_out_of_memory(problem):
            raise problem
        self.updater.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if rows <= 1:
            raise Failed("out of memory even with one window at a time") from problem
        self.parts = math.ceil(batch / (rows // 2))
        parts = f"batches are run in {self.parts} parts of up to {rows // 2}"
        self.history.note(f"out of memory with {rows} windows at a time: {parts}")

    def _captured(self, epoch: int, plan: Plan, rates: np.ndarray) -> list[float]:
        """Run the updates of an epoch as CUDA graphs, as far as they can be captured."""
        losses, done = np.zeros(len(plan), np.float32), 0
        while self.graphs is not None and done < len(plan):
            begin, graphs = done, self.graphs
            padded = [self._padded(numbers) for numbers in plan[done:]]
            graphs.begin([numbers for numbers, _ in padded], rates[done:])
            for _, shapes in padded:
                try:
                    graphs(shapes)
                except RuntimeError as problem:  # this update has not happened
                    self._recapture(problem)
                    break
                done += 1
                epochs = self.history.epochs
                self.progress(epoch, done, epochs[-1].loss if epochs else None)
            losses[begin:done] = graphs.end(done - begin)
        checked = self._checked(losses[:done])
        return checked if done == len(plan) else checked + self._stepwise(epoch, plan, rates, done)

    def _recapture(self, problem: RuntimeError) -> None:
        """Use smaller parts if memory ran out; stop using graphs if capturing failed."""
        self.updater.forget()
        try:
            self._halve(problem, self.rows // self.parts, self.rows)
            self.graphs = self._new_graphs()
        except RuntimeError:
            reason = f"they could not be captured as a CUDA graph: {str(problem).strip()}"
            self.history.note(f"updates are run one by one, because {reason}".split("\n")[0])
            self.graphs = None

    def _checked(self, losses: np.ndarray) -> list[float]:
        numbers: list[float] = losses.tolist()
        for loss in numbers:
            self._check_loss(loss)
        return numbers

    def _check_loss(self, loss: float) -> None:
        self.losses.append(loss)
        if not math.isfinite(loss):
            done = len(self.losses) - 1
            epoch = int(np.searchsorted(np.cumsum(self.updates), done, side="right"))
            update = done - sum(self.updates[:epoch]) + 1
            where = f"at update {update} of epoch {epoch + 1}, rate {self.rates[done]:.3g}"
            raise Failed(f"the loss or its gradient is {loss} {where}; a smaller rate may help")

    def _scores(self, score: Score) -> dict[str, float]:
        before = random_state(self.device)
        self.model.eval()
        scores = score(self.model)
        after = random_state(self.device)
        if any(not torch.equal(before[name], after[name]) for name in before):
            set_random_state(before, self.device)  # scoring must not change the training
        try:
            if isinstance(scores, Mapping):
                return {name: float(value) for name, value in scores.items()}
            return {"score": float(scores)}
        except (TypeError, ValueError) as problem:
            message = f"`score` expects a number, or numbers by name, got {scores!r}."
            raise DataError(message, "return float(...) from it") from problem

    def _keep(self, epoch: int, best: bool) -> None:
        """Keep the weights that are needed later, and the state to resume from."""
        settings, weights = self.settings, self.updater.weights()
        if self.keep_first and epoch == 1:
            self._keep_weights("first", weights)
        if best and self.score:
            self._keep_weights("best", weights)
        if settings.average > 1 and epoch > settings.epochs - settings.average:
            self._add_to_mean(weights)
        if self.folder is not None:
            self.history.weights.update(self.folder.weights())
            moments = {**self.updater.moments(), "parts": torch.tensor(self.parts)}
            moments |= {TOTAL + name: tensor for name, tensor in self.total.items()}
            self.folder.save(epoch, self.history, weights, moments)

    def _add_to_mean(self, weights: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in copies(weights).items():
            if name in self.total and tensor.is_floating_point():
                self.total[name] += tensor
            else:  # tensors of whole numbers are those of the last epoch
                self.total[name] = tensor

    def _keep_weights(self, which: str, weights: Mapping[str, torch.Tensor]) -> None:
        if self.folder is None:
            self.history.weights[which] = copies(weights)
        else:
            self.folder.keep(which, weights)

    def _finish(self) -> None:
        kept = self.history.weights
        if self.history.state == "done":
            last = self.updater.weights()
            if self.total:
                start = self.settings.epochs - self.settings.average
                number = len(self.history.epochs) - max(0, start)
                floats = {n: t / number for n, t in self.total.items() if t.is_floating_point()}
                last = self.total | floats
                put(self.model, last)
            self._keep_weights("last", last)
            if self.folder is not None:
                kept.update(self.folder.weights())
            if self.score is None and self.history.best:
                kept["best"] = kept["last"]
        if self.folder is not None:
            self.folder.write(self.history)
            self.folder.clear()
