"""L0: let the model learn, under a penalty, which heads it can do without.

Every head gets a random gate (hard_concrete), and the parameter of the gate is trained on the
task's loss plus a penalty on the chance that the gate is open. The score of a head is that chance
in the end, P(gate != 0); the heads whose gate has closed for good are in `details`, as names that
`prune` accepts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from deadhead.registry.options import Bound, Count

from .ranker import Progress, Ranker, RankerInputs, Scores

Penalty = Annotated[float, Bound(lambda value: value >= 0, "a number from 0")]
Penalties = Annotated[Sequence[Penalty], Bound(len, "a list of numbers from 0")]


@dataclass(frozen=True, kw_only=True)
class L0(Ranker):
    """Score a head by the chance that its trained gate is open.

    With a list of penalties, each is trained from the start, and a head's score is the mean over
    them: what stays open under a higher penalty matters more. `details["runs"]` has, for each, the
    heads that closed.
    """

    penalty: Penalty | Penalties = 0.1  # lambda, or a list of them
    # what lambda multiplies: the sum over all `heads` (the paper), or the mean over attention
    # `layers` of each layer's sum (their code)
    scaling: Literal["layers", "heads"] = "layers"
    train_weights: bool = False  # train a copy of the model's weights too, as Voita et al. do
    steps: Count = 300
    gate_rate: float = 0.1  # learning rate of the gates
    weight_rate: float = 2e-5  # and of the weights
    start: float = 2.5  # log a at first: above 2.4 a gate is wholly open

    @property
    def penalties(self) -> list[float]:
        values = self.penalty if isinstance(self.penalty, Sequence) else [self.penalty]
        return [float(value) for value in values]

    @property
    def passes(self) -> float:
        return 3 * self.steps * len(self.penalties) / 60  # a step is a batch, one of some 60

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .hard_concrete import chance_open, settled_gate, train_gates

        layout = inputs.layout
        runs, total = [], dict.fromkeys(layout, 0.0)
        layers = len([a for a in layout.attentions if a.kept])
        for number, penalty in enumerate(self.penalties):
            log_a, loss = train_gates(
                replace(inputs, progress=self._progress(inputs.progress, number)),
                penalty=penalty / (layers if self.scaling == "layers" else 1),
                start=self.start,
                steps=self.steps,
                gate_rate=self.gate_rate,
                weight_rate=self.weight_rate if self.train_weights else None,
            )
            for head, chance in zip(layout, chance_open(log_a).tolist(), strict=True):
                total[head] += chance / len(self.penalties)
            gates = zip(layout, settled_gate(log_a).tolist(), strict=True)
            closed = [str(head) for head, gate in gates if gate == 0]
            left = len(layout) - len(closed)
            runs.append({"penalty": penalty, "closed": closed, "open": left, "loss": loss})
        return Scores(total, details={"runs": runs})

    def _progress(self, whole: Progress, number: int) -> Progress:
        """The progress of one of the runs."""

        def progress(done: int, total: int, note: str = "") -> None:
            steps = number * total + done, len(self.penalties) * total
            whole(*steps, f"penalty {self.penalties[number]:g}: {note}")

        return progress
