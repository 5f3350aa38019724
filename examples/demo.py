"""Discover, gate, prune, save and load the heads of a small model built from a config. Needs no download."""

from __future__ import annotations

import tempfile

import torch
from transformers import BertConfig, BertForTokenClassification

from deadhead import discover, gated, load, prune, save, strategies

torch.manual_seed(0)
config = BertConfig(
    num_hidden_layers=4, num_attention_heads=6, hidden_size=96, intermediate_size=192, vocab_size=500, initializer_range=0.3
)
model = BertForTokenClassification(config).eval()
batch = {"input_ids": torch.randint(5, 500, (8, 24))}

layout = discover(model)
print(f"{layout}; the first is {next(iter(layout))}")

chosen = strategies.random(layout, 50, seed=0)
with torch.no_grad():
    whole = model(**batch).logits
    with gated(model, closed=chosen):
        masked = model(**batch).logits
    prune(model, chosen)
    pruned = model(**batch).logits
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        reloaded = load(folder)(**batch).logits

print(f"closing {len(chosen)} heads moves the logits by up to {(whole - masked).abs().max():.2f}")
print(f"pruned differs from masked by {(pruned - masked).abs().max():.1e}, reloaded from pruned by {(reloaded - pruned).abs().max():.1e}")
print(f"{len(discover(model))} heads are left: " + ", ".join(f"layer {a.layer}: {list(a.kept)}" for a in discover(model).attentions))
