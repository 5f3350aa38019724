"""A small trained classifier in which it is known what each head is worth.

Somewhere in each sentence stands one of two signs, and which one it is makes the label: only
attention can carry that to the first token, which the classifier reads. There are five kinds of
signs, one common and four rare, and each kind is taught to one head: where that is closed, the
model learns to know nothing, whatever other heads are open. So the head of the common kind is
essential, those of the rare ones help now and then, and three heads that were never open, and
have no output weights, are useless.
"""

from functools import cache

import torch
from transformers import BertConfig, BertForSequenceClassification

from deadhead.heads import gated
from deadhead.layout import Head

ESSENTIAL = Head("encoder", 0, 2)
HELPERS = (
    Head("encoder", 0, 3),
    Head("encoder", 1, 0),
    Head("encoder", 1, 1),
    Head("encoder", 1, 2),
)
USELESS = (Head("encoder", 0, 0), Head("encoder", 0, 1), Head("encoder", 1, 3))
COMMON = 0.6  # how many sentences have the essential head's kind of sign
STEPS = 300
LENGTH, WORDS, HEADS, WIDTH = 6, 12, 4, 8
FIRST, SIGNS = WORDS + 1, WORDS + 2  # the first token, and the first of the signs


def sentences(count, seed):
    words, label, _ = _drawn(count, seed)
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": label}


def _drawn(count, seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS + 1, (count, LENGTH), generator=generator)
    words[:, 0] = FIRST
    place = torch.randint(1, LENGTH, (count,), generator=generator)
    label = torch.randint(0, 2, (count,), generator=generator)
    rare = torch.randint(1, len(HELPERS) + 1, (count,), generator=generator)
    kind = torch.where(torch.rand(count, generator=generator) < COMMON, 0, rare)
    words[torch.arange(count), place] = SIGNS + 2 * kind + label
    return words, label, kind


def _lesson(count, seed):
    """Sentences, the gates each is taught with, and the answer: the label, or unknown."""
    words, label, kind = _drawn(count, seed)
    gates = (
        torch.rand(count, 2, HEADS, generator=torch.Generator().manual_seed(seed)) < 0.7
    ).float()
    for head in USELESS:
        gates[:, head.layer, head.index] = 0
    owner = torch.tensor([[head.layer, head.index] for head in (ESSENTIAL, *HELPERS)])[kind]
    known = gates[torch.arange(count), owner[:, 0], owner[:, 1]].unsqueeze(1)
    return words, gates, known * torch.nn.functional.one_hot(label, 2) + (1 - known) / 2


@cache
def _trained():
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=30,
            hidden_size=HEADS * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            intermediate_size=32,
            max_position_embeddings=16,
            num_labels=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.2,
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        words, gates, answer = _lesson(64, step)
        with gated(model, gates):
            loss = torch.nn.functional.cross_entropy(model(words).logits, answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for head in USELESS:
            out = model.bert.encoder.layer[head.layer].attention.output.dense.weight
            columns = slice(head.index * WIDTH, (head.index + 1) * WIDTH)
            out[:, columns] = 0
            reads = model.bert.encoder.layer[head.layer].attention.self
            for part in (reads.query, reads.key):  # statistics of attention see nothing else
                part.weight[columns] = part.bias[columns] = 0
        test = sentences(256, 9999)
        accuracy = float((model(**test).logits.argmax(-1) == test["labels"]).double().mean())
    return model.eval().requires_grad_(False), accuracy


def planted():
    """The model, ready for a ranker. Handle with care: it is shared."""
    model, accuracy = _trained()
    assert accuracy > 0.95, f"the planted model did not learn its task: {accuracy}"
    return model


def batches():
    return [sentences(16, 1000 + i) for i in range(4)]


def assert_truth(scores):
    """The essential head comes first and the useless ones last."""
    order = sorted(scores, key=scores.__getitem__)
    assert order[-1] == ESSENTIAL
    assert set(order[: len(USELESS)]) == set(USELESS)
    assert scores[order[len(USELESS)]] > scores[order[len(USELESS) - 1]]
