"""Tiny models and texts for refits, and a refit of two copies of a model by hand."""

import copy

import torch
from torch import Tensor
from torch.nn.functional import linear

from architectures.tiny import tiny
from deadhead.heads import discover
from deadhead.layout import Head
from deadhead.shrinking.held_out import held_out_numbers

REMOVED = {
    "bert": ["encoder.0.0", "encoder.1.2"],
    "llama": ["decoder.0.0", "decoder.0.1", "decoder.1.2", "decoder.1.3"],
    "gpt2": ["decoder.0.0", "decoder.1.2"],
}


def build(family, **overrides):
    return tiny(family, **overrides).double()


def batches(count=12, size=4, length=9, *, left=False):
    """Random text in batches of padded examples, of 3 tokens or more."""
    random = torch.Generator().manual_seed(0)
    result = []
    for _ in range(count):
        ids = torch.randint(5, 30, (size, length), generator=random)
        lengths = torch.randint(3, length + 1, (size, 1), generator=random)
        mask = (torch.arange(length)[None] < lengths).long()
        if left:  # the same tokens
            ids, mask = (
                torch.stack([row.roll(int(length - n)) for row, n in zip(t, lengths, strict=True)])
                for t in (ids, mask)
            )
        result.append({"input_ids": ids, "attention_mask": mask})
    return result


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def is_same(first, second):
    return first.keys() == second.keys() and all(
        first[name].nan_to_num(7).equal(second[name].nan_to_num(7)) for name in first
    )


def marks(model):
    """Where hooks and replaced functions could hide, the modes, and what has gradients."""
    marks = {}
    for path, module in model.named_modules():
        hooks = list(module._forward_hooks), list(module._forward_pre_hooks)
        learns = [p.requires_grad for p in module.parameters(recurse=False)]
        marks[path] = (*hooks, sorted(module.__dict__), module.training, learns)
    return marks


@torch.no_grad()
def logits(model, batch):
    output = model(**batch)[0]
    return output[batch["attention_mask"].bool()]


def neurons_of(model, step=3):
    layers = discover(model, neurons=True).feed_forwards
    return {(layer.block, layer.layer): layer.kept[::step] for layer in layers}


def tokens_to_fit(data):
    mask = torch.cat([batch["attention_mask"] for batch in data])
    fit = sorted({*range(len(mask))} - held_out_numbers(len(mask)))
    return int(mask[fit].sum())


class Reader:
    """Records what a module reads and gives."""

    def __init__(self, module):
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        module.register_forward_hook(self)

    def __call__(self, module, args, output):
        self.inputs.append(args[0])
        self.outputs.append(output[0] if isinstance(output, tuple) else output)


def layer_parts(model, family, layer):
    """The output projection of the attention, and a module that reads the stream before it."""
    if family == "bert":
        inner = model.base_model.encoder.layer[layer]
        return inner.attention.output.dense, inner.attention.self.query
    inner = model.base_model.layers[layer]
    return inner.self_attn.o_proj, inner.input_layernorm


@torch.no_grad()
def refit_by_hand(family, ridge, target):
    """Two copies: the small one is cut and refitted layer by layer, every token by itself."""
    whole, small, data = build(family), build(family), batches()
    held_out = held_out_numbers(48)
    flags = torch.tensor([number in held_out for number in range(48)]).split(4)
    for layer in range(2):
        removed = [Head.parse(h).index for h in REMOVED[family] if int(h.split(".")[1]) == layer]
        models = {}
        for name, model in (("whole", whole), ("small", small)):
            copied = copy.deepcopy(model)
            out, before = layer_parts(copied, family, layer)
            models[name] = (Reader(out), Reader(before))
            for batch in data:
                copied(**batch)
        keep = torch.ones(whole.config.hidden_size, dtype=torch.bool)
        for head in removed:
            width = whole.config.hidden_size // whole.config.num_attention_heads
            keep[head * width : (head + 1) * width] = False
        fit = [
            batch["attention_mask"].bool() & ~held_out[:, None]
            for batch, held_out in zip(data, flags, strict=True)
        ]

        def chosen(values, fit=fit):
            return torch.cat([value[rows] for value, rows in zip(values, fit, strict=True)])

        y = chosen(models["whole"][0].outputs)
        if target == "residual":
            y = y + chosen(models["whole"][1].inputs) - chosen(models["small"][1].inputs)
        x = chosen(models["small"][0].inputs)[:, keep]
        out = layer_parts(small, family, layer)[0]
        old = out.weight[:, keep]
        e = y - linear(x, old, out.bias)
        cx, ce = x - x.mean(0), e - e.mean(0)
        size = (ridge * cx.square().sum(0).mean()).sqrt() * torch.eye(cx.shape[1]).double()
        zeros = torch.zeros(cx.shape[1], ce.shape[1]).double()
        change = torch.linalg.lstsq(torch.cat([cx, size]), torch.cat([ce, zeros])).solution
        bias = e.mean(0) - x.mean(0) @ change
        out.weight.zero_()
        out.weight[:, keep] = old + change.T
        out.bias = torch.nn.Parameter(bias if out.bias is None else out.bias + bias)
    return small
