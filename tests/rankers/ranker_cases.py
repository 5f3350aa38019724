"""A tiny model and a padded batch for each kind of task."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from architectures.tiny import randomise, tiny
from deadhead.heads import discover, gated
from deadhead.rankers.loss import example_losses
from deadhead.rankers.ranker import RankerInputs

Batch = dict[str, torch.Tensor]
LENGTHS = (12, 9, 5, 7)
KINDS = ("classify", "tag", "seq2seq", "causal")


@dataclass
class Case:
    """A tiny random model in float64 and one padded batch for it."""

    model: Any
    batch: Batch

    def singles(self):
        """The same examples one at a time, without padding."""
        rows = []
        for i, length in enumerate(LENGTHS):
            row = {name: value[i : i + 1] for name, value in self.batch.items()}
            for name in ("input_ids", "attention_mask"):
                row[name] = row[name][:, :length]
            if row["labels"].dim() == 2:
                wide = (
                    int((row["labels"][0] != -100).nonzero().max()) + 1
                    if self.model.config.is_encoder_decoder
                    else length
                )
                row["labels"] = row["labels"][:, :wide]
            rows.append(row)
        return rows


def make_case(kind):
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 90, (4, 12), generator=draw)
    mask = (torch.arange(12)[None] < torch.tensor(LENGTHS)[:, None]).long()
    batch = {"input_ids": ids * mask, "attention_mask": mask}
    if kind == "classify":
        config = tiny("bert").config
        config.num_labels = 3
        model = AutoModelForSequenceClassification.from_config(config)
        batch["labels"] = torch.tensor([0, 2, 1, 2])
    elif kind == "tag":
        config = tiny("xlm-roberta", pad_token_id=0).config
        config.num_labels = 5
        model = AutoModelForTokenClassification.from_config(config)
        batch["labels"] = torch.where(
            (mask == 1) & (torch.rand(4, 12, generator=draw) < 0.7), ids % 5, -100
        )
        batch["labels"][:, 1] = 1
    elif kind == "seq2seq":
        model = tiny("marian")
        model.config.decoder_start_token_id = model.config.pad_token_id = 0
        wide = torch.tensor([6, 4, 7, 3])
        batch["labels"] = torch.where(
            torch.arange(7)[None] < wide[:, None],
            torch.randint(3, 90, (4, 7), generator=draw),
            -100,
        )
    else:
        model = tiny("llama")
        batch["labels"] = torch.where(mask == 1, ids, -100)
    randomise(model, 0)
    return Case(model.double().eval(), batch)


def scores_of(ranker, model, batches, **inputs):
    """What a ranker gives for a model in evaluation mode; by default for all of its heads."""
    arguments = {"layout": discover(model), **inputs}
    return ranker(RankerInputs(model=model, batches=batches, **arguments))


def by_real_gates(model, batch):
    """Gate gradients the plain way: gates that multiply, one example at a time.

    Head -> its value for each example.
    """
    layout = discover(model)
    result = {head: [] for head in layout}
    for i in range(len(batch["labels"])):
        row = {name: value[i : i + 1] for name, value in batch.items()}
        gates = {
            b: torch.ones(layout.layers(b), layout.size(b), dtype=torch.float64, requires_grad=True)
            for b in layout.blocks
        }
        with gated(model, gates):
            example_losses(model, row).sum().backward()
        for head in layout:
            result[head].append(float(gates[head.block].grad[head.layer, head.index]))
    return result
