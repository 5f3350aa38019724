"""The training loop: reproducible, equal to a simple loop, masked as pruned, parts as whole."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_tasks import bert, marian, tagger, weights

from deadhead import discover, prune
from deadhead.errors import HeadError
from deadhead.layout import Head
from deadhead.tasks import batches
from deadhead.training import Settings, SettingsError, Tick, finetune

FAST = Settings(batch=8, rate=3e-3, epochs=3)


def trained(model, data, settings=FAST, **options):
    return finetune(model, data, settings, progress=False, **options)


@pytest.mark.parametrize(
    ("data", "build"), [("foxes", bert), ("letters", tagger), ("pairs", marian)]
)
def test_same_seed_same_bits(data, build, request):
    encoded = request.getfixturevalue(data)
    left, two, other = build(dropout=0.1), build(dropout=0.1), build(dropout=0.1)
    first, second = trained(left, encoded), trained(two, encoded)
    third = trained(other, encoded, replace(FAST, seed=1))
    assert first.losses == second.losses
    assert torch.equal(weights(left), weights(two))
    assert first.losses != third.losses
    assert np.mean(first.losses[-5:]) < np.mean(first.losses[:5])  # and it learns


def test_numbers_of_a_plain_loop(letters):
    """Against the model's own loss, torch's AdamW, its clipping and a schedule by hand."""
    settings = Settings(batch=8, rate=1e-2, epochs=2, decay=0.1, clip=0.5, warmup=0.2)
    ours, theirs = (tagger(dropout=0.0).double(), tagger(dropout=0.0).double())
    history = trained(ours, letters, settings)
    bare = [p for n, p in theirs.named_parameters() if "bias" in n or "LayerNorm" in n]
    rest = [p for n, p in theirs.named_parameters() if not ("bias" in n or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW(
        [{"params": rest, "weight_decay": 0.1}, {"params": bare, "weight_decay": 0.0}], lr=1.0
    )
    rates, losses = iter(settings.rates(10)), []
    theirs.train()
    for epoch in (1, 2):
        for batch in batches(letters, size=8, seed=f"0/{epoch}"):
            loss = theirs(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            rate = next(rates)
            for group in optimizer.param_groups:
                group["lr"] = float(rate)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
    np.testing.assert_allclose(history.losses, losses, rtol=1e-5)
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=0, atol=1e-5)
    assert (weights(ours) - weights(tagger().double())).abs().max() > 0.01


HEADS = [Head("encoder", 0, 1), Head("encoder", 0, 2), *(Head("encoder", 1, i) for i in range(4))]


def test_masked_trains_as_pruned(foxes):
    """With dropout where shapes agree; without it in attention, where fewer heads draw less."""
    whole = bert(attention_dropout=0.0).double()
    masked, cut = copy.deepcopy(whole), prune(copy.deepcopy(whole), HEADS)
    settings = Settings(batch=8, rate=3e-3, epochs=3)
    with_gates, smaller = (
        trained(masked, foxes, settings, masked=HEADS),
        trained(cut, foxes, settings),
    )
    np.testing.assert_allclose(with_gates.losses, smaller.losses, rtol=1e-6)
    assert (
        np.abs(np.array(trained(whole, foxes, settings).losses) - smaller.losses).max() > 1e-2
    )  # the heads did matter
    assert len(discover(masked)) == 8  # and are still there
    with pytest.raises(HeadError):
        trained(cut, foxes, settings, masked=HEADS)


@pytest.mark.parametrize(
    ("data", "build"), [("foxes", bert), ("letters", tagger), ("pairs", marian)]
)
@pytest.mark.parametrize("parts", [2, 3, 50])
def test_parts_train_as_the_whole(data, build, parts, request):
    encoded = request.getfixturevalue(data)
    settings = Settings(batch=8, rate=3e-3, epochs=2, smoothing=0.1)
    whole = trained(build(dropout=0.0).double(), encoded, settings)
    inparts = trained(build(dropout=0.0).double(), encoded, replace(settings, accumulate=parts))
    np.testing.assert_allclose(inparts.losses, whole.losses, rtol=1e-6)
    bare = trained(build(dropout=0.0).double(), encoded, replace(settings, smoothing=0.0))
    assert np.abs(np.array(bare.losses) - whole.losses).max() > 1e-3  # smoothing did something


def test_out_of_memory_halves_and_changes_nothing(letters, monkeypatch):
    simple = trained(tagger(dropout=0.0).double(), letters)
    model = tagger(dropout=0.0).double()
    seen: list[int] = []
    forward = model.bert.encoder.forward

    def tight(hidden, *args, **kwargs):
        seen.append(len(hidden))
        if len(hidden) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(hidden, *args, **kwargs)

    monkeypatch.setattr(model.bert.encoder, "forward", tight)
    history = trained(model, letters)
    np.testing.assert_allclose(history.losses, simple.losses, rtol=1e-6)
    assert seen[:4] == [8, 4, 2, 2]
    assert sum(n > 3 for n in seen) == 2  # it is learned once
    assert any(
        "out of memory with 8 windows" in note and "2 parts of up to 4" in note
        for note in history.notes
    )


def test_out_of_memory_at_one_window_fails_with_a_record(letters, monkeypatch):
    model = tagger()
    monkeypatch.setattr(model.bert.encoder, "forward", _never)
    history = trained(model, letters)
    assert (history.state, history.reason) == (
        "failed",
        "out of memory even with one window at a time",
    )
    monkeypatch.setattr(model.bert.encoder, "forward", _broken)
    with pytest.raises(RuntimeError, match="something else"):  # what is not memory is not swallowed
        trained(model, letters)


def _never(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory.")


def _broken(*_, **__):
    raise RuntimeError("something else")


def test_nan_stops_with_a_record_and_keeps_the_weights(foxes, monkeypatch):
    model = bert()
    calls = {"n": 0}
    forward = model.classifier.forward

    def sometimes(x):
        calls["n"] += 1
        return forward(x) * (float("nan") if calls["n"] == 8 else 1.0)

    monkeypatch.setattr(model.classifier, "forward", sometimes)
    history = trained(model, foxes, Settings(batch=8, rate=1e-3, epochs=5))
    assert history.state == "failed"
    assert "the loss or its gradient is nan at update 3 of epoch 2" in history.reason
    assert len(history.losses) == 8
    assert len(history.epochs) == 1
    assert torch.isfinite(weights(model)).all()  # that update was not made


class Broken(torch.autograd.Function):
    """Passes its input on, and a gradient that is no number back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


@pytest.mark.parametrize("clip", [1.0, None])
def test_a_gradient_of_nan_stops_though_the_loss_is_a_number(clip, foxes, monkeypatch):
    model = bert()
    begun, forward = weights(model), model.classifier.forward
    monkeypatch.setattr(model.classifier, "forward", lambda x: Broken.apply(forward(x)))
    history = trained(model, foxes, Settings(batch=8, rate=1e-3, epochs=5, clip=clip))
    assert history.state == "failed"
    assert "the loss or its gradient is nan at update 1 of epoch 1" in history.reason
    assert torch.equal(weights(model), begun)


def test_bf16_follows_float32(letters):
    model = tagger(dropout=0.0)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    frozen = model.bert.embeddings.word_embeddings.weight.clone()
    settings = Settings(batch=8, rate=1e-3, epochs=3)
    full = trained(copy.deepcopy(model), letters, settings)
    low = trained(model, letters, replace(settings, precision="bf16"))
    np.testing.assert_allclose(low.losses, full.losses, rtol=0.05)
    assert low.losses != full.losses
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert (
        weights(model).bfloat16().float() != weights(model)
    ).any()  # weights finer than bfloat16 can hold
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, frozen)


def test_half_precision_weights_are_trained_in_full(letters):
    model = tagger().bfloat16()
    history = trained(model, letters)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert any("half precision" in note for note in history.notes)


def test_scoring_changes_nothing(foxes):
    def noisy(model):
        assert not model.training
        return {"luck": float(torch.rand(()))}

    torch.manual_seed(5)
    before = torch.get_rng_state()
    with_score = trained(bert(), foxes, score=noisy)
    torch.set_rng_state(before)
    without = trained(bert(), foxes)
    assert with_score.losses == without.losses
    torch.set_rng_state(before)
    trained(bert(), foxes)
    torch.manual_seed(5)
    bert()  # seeds to 0
    after = torch.get_rng_state()
    trained(bert(), foxes)
    assert torch.equal(
        torch.get_rng_state(), after
    )  # the numbers of the caller continue as if nothing had been


def test_best_last_and_first_weights(foxes):
    scores = iter([0.5, 0.9, 0.7])
    seen: list[torch.Tensor] = []

    def score(model):
        seen.append(weights(model))
        return next(scores)

    model = bert()
    history = trained(model, foxes, score=score, keep_first=True)
    assert (history.best, history.scores, history.metric) == (2, {"score": 0.9}, "score")
    assert torch.equal(weights(model), seen[2])
    for which, expected in (("best", seen[1]), ("first", seen[0]), ("last", seen[2])):
        assert torch.equal(weights(history.restore(model, which)), expected)
    assert not torch.equal(seen[0], seen[1])


def test_early_stop(foxes):
    scores = iter([0.5, 0.6, 0.6, 0.4, 0.9])
    history = trained(
        bert(), foxes, Settings(batch=8, epochs=5, patience=2), score=lambda _: next(scores)
    )
    assert (len(history.epochs), history.best, history.state) == (4, 2, "done")
    assert "stopped early" in history.reason


def test_patience_needs_a_score(foxes):
    with pytest.raises(SettingsError, match="patience is 2, but nothing is scored"):
        trained(bert(), foxes, Settings(patience=2))


def test_early_stop_holds_when_it_is_killed_right_after(foxes, tmp_path, monkeypatch):
    scores = iter([0.5, 0.4, 0.9, 0.9, 0.9])
    settings = Settings(batch=8, epochs=5, patience=1)
    with monkeypatch.context() as patch:
        patch.setattr("deadhead.training.run.Run._finish", _broken)
        with pytest.raises(RuntimeError):
            trained(bert(), foxes, settings, score=lambda _: next(scores), folder=tmp_path)
    history = trained(bert(), foxes, settings, score=lambda _: next(scores), folder=tmp_path)
    assert (len(history.epochs), history.best, history.state) == (2, 1, "done")


def test_a_score_of_nan_is_no_best(foxes):
    scores = iter([float("nan"), 0.4, 0.3])
    assert trained(bert(), foxes, score=lambda _: next(scores)).best == 2


def test_dev_is_scored_by_the_task(letters):
    history = trained(tagger(), letters, Settings(batch=8, rate=1e-2, epochs=6), dev=letters)
    assert history.metric == "accuracy"
    assert history.scores["accuracy"] > 0.9
    assert set(history.epochs[0].scores) == {"accuracy", "macro_f1"}


def test_sequential_is_the_order_of_the_file(foxes, monkeypatch):
    model, seen = bert(), []
    forward = model.forward
    monkeypatch.setattr(
        model, "forward", lambda **batch: seen.append(batch["input_ids"]) or forward(**batch)
    )
    trained(model, foxes, Settings(batch=8, epochs=1, sampler="sequential"))
    rows = [row[row != 0].tolist() for batch in seen for row in batch]
    assert rows == [
        foxes.arrays["ids"][a:b].tolist()
        for a, b in zip(foxes.starts[:-1], foxes.starts[1:], strict=True)
    ]


def test_token_budget(pairs, monkeypatch):
    model, seen = marian(), []
    forward = model.model.forward
    monkeypatch.setattr(
        model.model,
        "forward",
        lambda *a, **k: seen.append((a[0] if a else k["input_ids"]).numel()) or forward(*a, **k),
    )
    history = trained(
        model, pairs, Settings(tokens=60, epochs=2, rate=1e-3, schedule="inverse_sqrt", warmup=5)
    )
    assert max(seen) <= 60
    assert len(history.losses) == len(seen) > 2 * 5
    assert [e.updates for e in history.epochs] == [
        len(seen) - history.epochs[1].updates,
        history.epochs[1].updates,
    ]


def test_progress_is_called_after_every_update(foxes, capfd):
    ticks: list[Tick] = []
    finetune(bert(), foxes, FAST, progress=ticks.append)
    assert [(t.epoch, t.update) for t in ticks] == [(e, u) for e in (1, 2, 3) for u in range(1, 6)]
    assert "epoch 3/3  update 5/5  loss" in str(ticks[-1])
    assert str(ticks[-1]).endswith("0 s left")
    finetune(bert(), foxes, FAST, progress=True)  # no terminal here
    assert capfd.readouterr() == ("", "")
