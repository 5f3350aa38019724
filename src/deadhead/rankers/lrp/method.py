"""Layer-wise relevance propagation: how much of the model's decision came through each head.

The decision (the logit of the predicted class, at every labelled position) is passed back through
the network; every operation passes it to its inputs by their share in the output. What arrives at
the input of an attention's output projection, summed over positions, is the relevance of its heads.

Written from the published formulas (Bach et al. 2015, Voita et al. 2019 and 2021, Achtibat et al.
2024). The LRP method is reported to be patented, and free for personal and scientific use only; if
your use is another, check before you use it.
"""

from dataclasses import dataclass
from typing import Literal

from deadhead.errors import UnsupportedModel
from deadhead.rankers.ranker import Ranker, RankerInputs, Scores
from deadhead.ranking.scores import spread


@dataclass(frozen=True)
class LRP(Ranker):
    """Score a head by its share in the relevance of its layer.

    Shares are per sentence, averaged, then scaled to 0..1. `epsilon` is AttnLRP and costs one
    backward pass. `alpha-beta` follows Voita et al.; it computes the part of every weight for every
    token, which takes a BERT of base size some ten seconds a sentence on one CPU core: use a GPU.
    """

    reads = "labels"

    rule: Literal["alpha-beta", "epsilon"] = "epsilon"

    @property
    def passes(self) -> float:
        return 25.0 if self.rule == "alpha-beta" else 3.0

    def __call__(self, inputs: RankerInputs) -> Scores:
        from .relevance import mean_shares

        raw = mean_shares(inputs, self.rule)
        if not any(raw.values()):
            message = "no relevance reaches any head: the logits do not depend on attention."
            raise UnsupportedModel(message, "check for weights that are all 0")
        return Scores(spread(raw), raw)
