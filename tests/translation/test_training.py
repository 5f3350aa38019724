"""Training on pairs: batches by tokens, sums of parts, the mean of epochs, dev scores, bf16."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from toy_pair import TRAINING

from deadhead.tasks import batches
from deadhead.tasks.encoding.feed import Feed
from deadhead.training import Settings, finetune, preset
from deadhead.training.update import Updater

SHORT = replace(TRAINING, epochs=4, tokens=300)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_batch_keeps_within_its_tokens(toy):
    data, budget = toy(120), 200
    lengths = np.maximum(data.arrays["lengths"], data.arrays["label_lengths"])
    assert (lengths > data.arrays["lengths"]).any()  # some are longer in the other language
    built = batches(data, tokens=budget, seed=1, both=True).numbers
    sizes = [len(numbers) * lengths[numbers].max() for numbers in built]
    assert max(sizes) <= budget
    assert np.mean(sizes) > 0.7 * budget
    assert sorted(np.concatenate(built).tolist()) == list(range(len(data)))
    source = batches(data, tokens=budget, seed=1).numbers
    assert (
        max(len(n) * lengths[n].max() for n in source) > budget
    )  # the twin: by the source alone it is not kept


def test_ten_parts_are_one_batch(model, toy):
    """The same loss and the same gradient; a mean over the parts' own means is another."""
    data = toy(33)
    feed, numbers = Feed(data, "cpu"), np.arange(33)
    settings = replace(preset("weak-link-transformer", "en-de"), tokens=10_000)
    assert (settings.accumulate, settings.smoothing) == (10, 0.1)
    model = model.double().train()
    result = []
    for parts in (1, settings.accumulate):
        updater = Updater(copy.deepcopy(model), feed, settings)
        shapes = [feed.shape(part) for part in np.array_split(numbers, parts)]
        assert len(shapes) == parts
        loss = updater.backward(torch.from_numpy(numbers), shapes)
        result.append(
            (
                float(loss),
                torch.cat([p.grad.flatten() for p in updater.params if p.grad is not None]),
            )
        )
    (first, whole), (ten, added) = result
    assert ten == pytest.approx(first, rel=1e-12)
    assert torch.allclose(added, whole, rtol=1e-9, atol=1e-12)
    own = [
        float(updater.backward(torch.from_numpy(part), [feed.shape(part)]))
        for part in np.array_split(numbers, 10)
    ]
    assert np.mean(own) != pytest.approx(first, rel=1e-4)


@pytest.mark.parametrize("kept", [False, True])
def test_the_end_is_the_mean_of_the_last_epochs(kept, model, toy, tmp_path):
    seen: list[dict[str, torch.Tensor]] = []

    def watch(model):
        seen.append({name: p.detach().clone() for name, p in model.named_parameters()})
        return 0.0

    folder = tmp_path / "t" if kept else None
    history = finetune(
        model, toy(40), replace(SHORT, average=3), score=watch, folder=folder, progress=False
    )
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, sum(epoch[name] for epoch in seen[1:]) / 3)
    assert not torch.equal(model.model.shared.weight, seen[-1]["model.shared.weight"])
    end = weights(model)
    assert torch.equal(weights(history.restore(model, "last")), end)
    if kept:
        assert sorted(f.name for f in (tmp_path / "t").iterdir()) == [
            "best.safetensors",
            "history.json",
            "last.safetensors",
        ]


def test_an_interrupted_mean_resumes(model, toy, tmp_path):
    data, settings = toy(40), replace(SHORT, average=3)
    undisturbed, start = copy.deepcopy(model), copy.deepcopy(model)
    expected = finetune(undisturbed, data, settings, progress=False)

    def stop(tick):
        if (tick.epoch, tick.update) == (4, 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finetune(model, data, settings, folder=tmp_path, progress=stop)
    torch.nn.init.zeros_(start.model.shared.weight)  # what is given does not matter any more
    history = finetune(start, data, settings, folder=tmp_path, progress=False)
    assert history.losses == expected.losses
    assert torch.equal(weights(start), weights(undisturbed))


def test_dev_scores_are_the_likelihood(model, toy):
    dev = toy(12, seed=9)
    history = finetune(model, toy(20), SHORT, dev=dev, progress=False)
    assert history.metric == "log_likelihood"
    batch = batches(dev, size=12)[0]
    logits = model.eval()(
        **{name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
    ).logits
    loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
    assert history.epochs[-1].scores["log_likelihood"] == pytest.approx(-loss.item(), rel=1e-5)


def test_every_training_starts_its_own_schedule(model, toy, monkeypatch):
    rates: list[float] = []
    counts: list[float] = []
    apply = Updater.apply

    def watched(self, loss, rate):
        rates.append(float(rate))
        counts.append(float(self.count))
        apply(self, loss, rate)

    monkeypatch.setattr(Updater, "apply", watched)
    settings = Settings(**{**SHORT.to_dict(), "epochs": 2, "warmup": 5, "tokens": 100})
    for _ in range(2):
        finetune(model, toy(40), settings, progress=False)
    half = len(rates) // 2
    assert half > 6
    assert rates[:half] == rates[half:]
    assert counts[0] == counts[half] == 0
    assert rates[half] == pytest.approx(settings.rate / 5)
    assert max(rates) == pytest.approx(settings.rate)
