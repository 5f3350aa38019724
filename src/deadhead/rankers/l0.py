"""L0: let the model learn, under a penalty, which heads it can do without.

Every head gets a random gate (hard_concrete), and the parameter of the gate is trained on the
task's loss plus a penalty on the chance that the gate is open. The score of a head is that chance
in the end, P(gate != 0); the heads whose gate has closed for good are in `details`, as names that
`prune` accepts.
"""

from dataclasses import dataclass
from typing import Annotated

from deadhead.registry.options import Bound, Count

from .ranker import Ranker, RankerInputs, Scores

Penalty = Annotated[float, Bound(lambda value: value >= 0, "a number from 0")]


@dataclass(frozen=True, kw_only=True)
class L0(Ranker):
    """Score a head by the chance that its trained gate is open."""

    # lambda: it multiplies the mean over attention layers of each layer's sum, as in the code of
    # Voita et al.; in their paper, the sum over all heads
    penalty: Penalty = 0.1
    train_weights: bool = False  # train a copy of the model's weights too, as Voita et al. do
    steps: Count = 300
    gate_rate: float = 0.1  # learning rate of the gates
    weight_rate: float = 2e-5  # and of the weights
    start: float = 2.5  # log a at first: above 2.4 a gate is wholly open

    @property
    def passes(self) -> float:
        return 3 * self.steps / 60  # a step is a batch, one of some 60

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .hard_concrete import chance_open, settled_gate, train_gates

        layout = inputs.layout
        log_a, loss = train_gates(
            inputs,
            penalty=self.penalty / len([a for a in layout.attentions if a.kept]),
            start=self.start,
            steps=self.steps,
            gate_rate=self.gate_rate,
            weight_rate=self.weight_rate if self.train_weights else None,
        )
        gates = zip(layout, settled_gate(log_a).tolist(), strict=True)
        closed = [str(head) for head, gate in gates if gate == 0]
        chances = dict(zip(layout, chance_open(log_a).tolist(), strict=True))
        return Scores(chances, details={"closed": closed, "loss": loss})
