"""Tiny models with data: a tagger, a grouped-query language model, and planted useless units."""

import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from architectures.tiny import randomise, tiny
from deadhead.heads.discover import find_every_site

Batch = dict[str, torch.Tensor]
LENGTHS = (9, 6, 4, 7, 8, 5)


def data(kind, side="right"):
    """Six padded examples with labels of a kind."""
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 90, (len(LENGTHS), max(LENGTHS)), generator=draw)
    mask = (torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]).long()
    labels = torch.where(mask == 1, ids if kind == "causal" else ids % 5, -100)
    batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}
    if side == "left":
        batch = {n: torch.stack([*map(_rolled, v, mask)]) for n, v in batch.items()}
    if kind == "classify":
        batch["labels"] = ids[:, 0] % 3
    return batch


def _rolled(row, mask):
    return row.roll(int((mask == 0).sum()))


def singles(batch):
    """The same examples one at a time, without padding."""
    rows = []
    for number, length in enumerate(LENGTHS):
        row = {name: value[number : number + 1] for name, value in batch.items()}
        rows.append({n: v[:, :length] if v.dim() > 1 else v for n, v in row.items()})
    return rows


def model_of(kind):
    if kind == "causal":
        model = tiny("llama")
    else:
        config = tiny("bert", pad_token_id=0).config
        config.num_labels = 3 if kind == "classify" else 5
        auto = AutoModelForSequenceClassification if kind == "classify" else None
        model = (auto or AutoModelForTokenClassification).from_config(config)
    randomise(model, 0)
    return model.double().eval()


def site_at(model, kind, layer):
    return next(s for s in find_every_site(model) if (s.kind, s.layer) == (kind, layer))


@torch.no_grad()
def silence(model, kind, layer, number):
    """The output projection ignores a head or a neuron."""
    site = site_at(model, kind, layer)
    assert site.out is not None
    site.out.weight[:, number * site.width : (number + 1) * site.width] = 0


@torch.no_grad()
def duplicate(model, kind, layer, source, copy):
    """A head or a neuron gives what another gives; the output projection reads both."""
    site = site_at(model, kind, layer)
    for name, part in site.parts.items():
        for role, rows in part.rows.items():
            for tensor, axis in part.tensors if name != "o" else ():
                values = getattr(part.module, tensor)
                assert axis == 0, role
                values[rows[copy]] = values[rows[source]]
