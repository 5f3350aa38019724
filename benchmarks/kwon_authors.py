"""Kwon et al. 2022: does `shrink` give the units and the scales of the authors' own code?

    git clone https://github.com/WoosukKwon/retraining-free-pruning FOLDER
    python benchmarks/kwon_authors.py --authors FOLDER [--shares 0.25,0.5,0.75] [--json FILE]
                                      [--model MODEL --data DIR --task sst2 --train 1000]
                                      [--examples 512]

Both get the same BERT and the same examples, in batches of 32. The authors' functions give
gradients of masks, a choice for the share of the MACs and for its square root (their teacher), the
rearrangement and the scales. `shrink(method="kwon", repair="scales")` gives a small model. A row
has the differences: of the sums of squared gradients, relative to the largest; the number of units
that only one of them removes, from the gradients of each and from ours alone; of the scales of the
same units. It also has the score of both models, if there is a task; without --model, a random
BERT.

LSMR stops early, so rounding decides the last digits of the scales, and at times whether a layer
has scales at all. "rounding" therefore compares the authors' scales with theirs again, with the
unknowns of each system in reverse order.

`kwon_authors_code.py` runs their code on a CPU. All numbers are in float64.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from encoder_tasks import Task
from kwon_authors_code import MaskedBert, authors_code, on_cpu
from machine import write_rows
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

from deadhead.display.progress import silent
from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site
from deadhead.rankers.loss import IGNORED
from deadhead.shrinking import Choice, shrink
from deadhead.shrinking.held_out import split_examples
from deadhead.shrinking.statistics import BATCH, collect

KINDS = ("heads", "neurons")
Masks = dict[str, Tensor]  # by kind, layers x units: 0 for a removed unit, else its scale


def in_batches(data: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """The same examples in the same order, in the authors' batches."""
    rows = [
        {name: values[number] for name, values in batch.items()}
        for batch in data
        for number in range(len(batch["input_ids"]))
    ]
    result = []
    for begin in range(0, len(rows), BATCH):
        group = rows[begin : begin + BATCH]
        result.append({
            name: torch.stack([row[name] for row in group])
            if not group[0][name].dim()
            else nn.utils.rnn.pad_sequence(
                [row[name] for row in group], True, IGNORED if name == "labels" else 0
            )
            for name in group[0]
        })  # fmt: skip
    return result


@dataclass(kw_only=True)
class Result:
    """What one of the two gives.

    fisher: sums of squared gradients. units, teacher: the choice, 1 for each unit that remains.
    """

    fisher: Masks
    units: Masks
    teacher: Masks
    scales: Masks


def gradients_of(model: Any, data: Sequence[Mapping[str, Tensor]]) -> Masks:
    """Our gradients of the mean losses of batches: batches x layers x units, up to a factor."""
    model = copy.deepcopy(model).requires_grad_(False)
    statistics = collect(model, find_every_site(model), data, by_batch=True, progress=silent)
    return {
        kind: torch.stack([
            layer.by_batch.to(model.dtype)
            for key, layer in statistics.places.items()
            if key[0] == kind and layer.by_batch is not None
        ], 1)
        for kind in KINDS
    }  # fmt: skip


def our_masks(config: Any, choice: Choice | None) -> Masks:
    """The units that a choice keeps."""
    assert choice is not None
    masks = {
        "heads": torch.ones(config.num_hidden_layers, config.num_attention_heads),
        "neurons": torch.ones(config.num_hidden_layers, config.intermediate_size),
    }
    for head in choice.heads:
        masks["heads"][head.layer, head.index] = 0
    for (_, layer), removed in choice.neurons.items():
        masks["neurons"][layer, list(removed)] = 0
    return masks


def projections(layer: Any) -> dict[str, Any]:
    return {"heads": layer.attention.output.dense, "neurons": layer.output.dense}


def scales_of(model: Any, small: Any, units: Masks) -> Masks:
    """The factor by which each remaining unit's weights were multiplied."""
    scales = {kind: mask.clone() for kind, mask in units.items()}
    layers = zip(model.bert.encoder.layer, small.bert.encoder.layer, strict=True)
    for number, (before, after) in enumerate(layers):
        for kind, mask in scales.items():
            if not (left := mask[number].nonzero()[:, 0]).numel():
                continue
            old = projections(before)[kind].weight.detach()
            old = old.unflatten(1, (mask.shape[1], -1))[:, left]
            new = projections(after)[kind].weight.detach().view_as(old)
            factors = (new * old).sum((0, 2)) / old.square().sum((0, 2))
            torch.testing.assert_close(new, factors[:, None] * old)  # one factor, nothing else
            mask[number, left] = factors
    return scales


def with_scales(model: Any, scales: Masks) -> Any:
    """A model of the whole size whose units have these scales; 0 removes a unit."""
    masked = copy.deepcopy(model)
    with torch.no_grad():
        for number, layer in enumerate(masked.bert.encoder.layer):
            for kind, module in projections(layer).items():
                weight = module.weight.unflatten(1, (scales[kind].shape[1], -1))
                module.weight.copy_((weight * scales[kind][number, :, None]).flatten(1))
    return masked


def our_result(
    model: Any, data: Sequence[Mapping[str, Tensor]], share: float, tokens: int, gradients: Masks
) -> tuple[Result, Any]:
    """The result of `shrink`, and the small model."""
    small = copy.deepcopy(model)
    report = shrink(
        small, data, macs=share, on=(1, tokens), method="kwon", repair="scales", progress=False
    )
    units = our_masks(model.config, report.choice)
    result = Result(
        fisher={kind: values.square().sum(0) for kind, values in gradients.items()},
        units=units,
        teacher=our_masks(model.config, report.choice.teacher),
        scales=scales_of(model, small, units),
    )
    return result, small


def authors_units(
    authors: Any, config: Any, gradients: Masks, share: float, tokens: int
) -> tuple[Masks, Masks]:
    """The authors' choice, rearranged, and that of their teacher, which is not."""
    teacher, units = (
        authors.search_mac(config, *gradients.values(), tokens, part)
        for part in (sqrt(share), share)
    )
    rearranged = {
        kind: authors.rearrange_mask(mask, gradients[kind])
        for kind, mask in zip(KINDS, units, strict=True)
    }
    return rearranged, dict(zip(KINDS, teacher, strict=True))


def authors_result(
    authors: Any, model: Any, batches: Sequence[dict[str, Tensor]], share: float, tokens: int,
    ours: Result,
) -> Result:  # fmt: skip
    """The result of the authors' functions; the scales are of our units."""
    masked, config = MaskedBert(model), model.config
    whole = our_masks(config, Choice(heads=(), neurons={}, predicted=None, method={}))
    grads = authors.collect_mask_grads(masked, *whole.values(), [dict(b) for b in batches])
    gradients = dict(zip(KINDS, grads, strict=True))
    units, teacher = authors_units(authors, config, gradients, share, tokens)
    return Result(
        fisher={kind: authors.compute_fisher_info(values) for kind, values in gradients.items()},
        units=units,
        teacher=teacher,
        scales=authors_scales(authors, masked, batches, ours),
    )


def authors_scales(
    authors: Any, masked: MaskedBert, batches: Sequence[dict[str, Tensor]], ours: Result
) -> Masks:
    """The authors' scales of our units."""
    scales = authors.rescale_mask(
        masked, masked.model.config, *ours.teacher.values(), *ours.units.values(),
        [dict(batch) for batch in batches],
        classification_task=isinstance(masked.model, BertForSequenceClassification),
    )  # fmt: skip
    return dict(zip(KINDS, scales, strict=True))


def compared(
    ours: Result, theirs: Result, same_gradients: tuple[Masks, Masks], again: Masks
) -> dict[str, Any]:
    """The differences of two results, by kind.

    same_gradients: the authors' units and teacher from our gradients. again: their scales, by
    another order of the unknowns.
    """

    def count(one: Masks, other: Masks) -> dict[str, int]:
        return {kind: int((one[kind] != other[kind]).sum()) for kind in KINDS}

    def largest(one: Masks, other: Masks, relative: bool) -> dict[str, float]:
        return {
            kind: float((one[kind] - other[kind]).abs().max())
            / (float(other[kind].abs().max()) if relative else 1.0)
            for kind in KINDS
        }

    def scaled(scales: Masks) -> int:
        """Count the projections with scales."""
        return sum(int(((m != 0) & ((m - 1).abs() > 1e-9)).any(1).sum()) for m in scales.values())

    mean = {k: v / v.mean() for k, v in ours.fisher.items()}  # ours have another factor
    other = {k: v / v.mean() for k, v in theirs.fisher.items()}
    return {
        "squared gradients": largest(mean, other, relative=True),
        "units": count(ours.units, theirs.units),
        "units, same gradients": count(ours.units, same_gradients[0]),
        "teacher": count(ours.teacher, theirs.teacher),
        "teacher, same gradients": count(ours.teacher, same_gradients[1]),
        "remaining": {kind: int(ours.units[kind].sum()) for kind in KINDS},
        "scales": largest(ours.scales, theirs.scales, relative=False),
        "scales, rounding": largest(again, theirs.scales, relative=False),
        "largest scale": max(float(m.abs().max()) for m in theirs.scales.values()),
        "scaled projections": {
            name: scaled(scales)
            for name, scales in (
                ("ours", ours.scales),
                ("authors", theirs.scales),
                ("authors, rounding", again),
            )
        },
    }


def row_of(
    authors: Any, model: Any, data: Sequence[Mapping[str, Tensor]], share: float, task: Task | None
) -> dict[str, Any]:
    """Both results for a share of the MACs, compared."""
    fit = in_batches(split_examples(data)[0])  # what `shrink` does not hold out
    examples = sum(len(batch["input_ids"]) for batch in fit)
    tokens = round(sum(int(batch["attention_mask"].sum()) for batch in fit) / examples)
    gradients = gradients_of(model, fit)
    ours, small = our_result(model, data, share, tokens, gradients)
    with on_cpu():
        theirs = authors_result(authors, model, fit, share, tokens, ours)
        same = authors_units(authors, model.config, gradients, share, tokens)
        with patch.object(authors.solver, "is_reversed", True):
            again = authors_scales(authors, MaskedBert(model), fit, ours)
    row = {"share": share, "examples": examples, "tokens": tokens}
    row |= compared(ours, theirs, same, again)
    if task is not None:
        models = {"whole": model, "ours": small, "authors": with_scales(model, theirs.scales)}
        row["score"] = {name: task.points(other)["en"] for name, other in models.items()}
    return row


def tiny(examples: int) -> tuple[Any, list[dict[str, Tensor]]]:
    """A random BERT that classifies, and random examples of 4 to 12 tokens."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=48, num_hidden_layers=4, num_attention_heads=6,
        intermediate_size=128, max_position_embeddings=16, num_labels=3, initializer_range=0.2,
    )  # fmt: skip
    lengths = torch.randint(4, 13, (examples,))
    data = {
        "input_ids": torch.randint(60, (examples, 12)),
        "attention_mask": (torch.arange(12) < lengths[:, None]).long(),
        "labels": torch.randint(3, (examples,)),
    }
    return BertForSequenceClassification(config).eval(), [data]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--authors", type=Path, required=True, help="folder of the authors' code")
    parser.add_argument("--model", help="a BERT; default: a tiny random one")
    parser.add_argument("--data", help="the folder of the data of the task")
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--train", type=int, default=1000, help="of the training examples")
    parser.add_argument("--scored", type=int, help="of the examples that give the score")
    parser.add_argument("--examples", type=int, default=512, help="to calibrate with")
    parser.add_argument("--shares", default="0.25,0.5,0.75", help="of the MACs that remain")
    parser.add_argument("--seed", type=int, default=0, help="of the task layer and the training")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    try:
        authors, task = authors_code(arguments.authors), None
    except DeadheadError as error:
        parser.error(str(error))
    if arguments.model is None:
        model, data = tiny(arguments.examples)
        common = {"model": "random", "task": "random labels"}
    else:
        task = Task(
            name=arguments.task, model=arguments.model, data=arguments.data,
            train=arguments.train, scored=arguments.scored,
        )  # fmt: skip
        model = task.train_model(task.new_model(arguments.seed), arguments.seed, batch=64)
        data = task.calibration(arguments.seed, arguments.examples, 0)
        common = {"model": Path(arguments.model).name, "task": task.name, "trained": task.train}
    torch.set_default_dtype(torch.float64)
    model = model.double()
    rows = []
    for share in map(float, arguments.shares.split(",")):
        rows.append(common | row_of(authors, model, data, share, task))
        print(json.dumps(rows[-1], indent=1))
        write_rows(arguments.json, "cpu", rows)


if __name__ == "__main__":
    main()
