"""A model, a clean batch, and a corrupt one that is as near to it as one likes."""

import torch

from architectures.tiny import tiny
from deadhead.effects import logit_difference
from deadhead.effects.stream import Nodes
from deadhead.verify.inputs import batch_for

OFFSET = 40  # a corrupt token has the number of the clean one and this


def near_pair(family, distance, **sizes):
    """The embedding of each corrupt token is that of the clean one and noise of this size."""
    model = tiny(family, **sizes).double().eval()
    clean = batch_for(model)
    for name in ("input_ids", "decoder_input_ids"):
        if name in clean:
            clean[name] = clean[name].clamp(max=OFFSET - 1)
    ids = clean["input_ids"]
    corrupt = {**clean, "input_ids": torch.where(ids > 3, ids + OFFSET, ids)}
    table = Nodes(model).tables[0].weight.data
    noise = torch.randn(OFFSET, table.shape[1], generator=torch.Generator().manual_seed(1))
    table[OFFSET : 2 * OFFSET] = table[:OFFSET] + distance * noise
    return model, clean, corrupt


def difference(outputs, batch):
    if not hasattr(outputs, "logits"):
        return outputs.last_hidden_state[:, 0, 3]
    return logit_difference(5, 6)(outputs, batch)
