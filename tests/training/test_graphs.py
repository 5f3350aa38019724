"""CUDA graphs: on a GPU the same losses as step by step; elsewhere with a fake device."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_tasks import bert, marian, tagger

from architectures.tiny import tiny
from deadhead import prune
from deadhead.tasks import batches
from deadhead.training import Settings, finetune, graphs, run
from deadhead.training.graphs import Graphs
from deadhead.training.update import READY_MASKS, additive

SETTINGS = Settings(batch=16, rate=3e-3, epochs=4)  # 40 windows: two full batches and a short one
CUDA = torch.cuda.is_available()


class Recorded:
    """A stand-in for a captured graph: while it is captured the work is only remembered."""

    replays = 0

    def replay(self):
        Recorded.replays += 1
        self.work()


class OnCpu(Graphs):
    """Graphs where there is no CUDA: everything but the capturing itself."""

    limit = 10**9  # rows that may be captured at a time

    def _capture(self, shapes):
        self.updater.forget()
        if any(shape.rows > self.limit for shape in shapes):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        built = Recorded()
        built.work = lambda: self._update(shapes)
        return built


class Stream:
    def __init__(self, *_):
        pass

    def wait_stream(self, _):
        pass


@pytest.fixture
def _fake_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(run, "Graphs", OnCpu)
    called = run.Run.__call__
    monkeypatch.setattr(
        run.Run,
        "__call__",
        lambda self, progress, _, name: called(self, progress, name != "stepwise", name),
    )
    Recorded.replays = 0


def both(build, data, settings, **options):
    captured = finetune(build(), data, settings, progress=False, **options)
    return captured, finetune(build(), data, settings, progress=False, name="stepwise", **options)


@pytest.mark.usefixtures("_fake_cuda")
@pytest.mark.parametrize(
    ("data", "build"), [("foxes", bert), ("letters", tagger), ("pairs", marian)]
)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_replayed_updates_are_the_updates(data, build, accumulate, request):
    encoded = request.getfixturevalue(data)
    settings = replace(SETTINGS, accumulate=accumulate)
    captured, simple = both(lambda: build(dropout=0.0).double(), encoded, settings)
    np.testing.assert_allclose(captured.losses, simple.losses, rtol=1e-5)
    assert captured.losses[-1] < captured.losses[0]
    assert 12 - 2 * 3 <= Recorded.replays < 12  # the first of each shape is run as it is
    assert captured.notes == []


@pytest.mark.usefixtures("_fake_cuda")
def test_memory_that_runs_out_while_capturing_halves_the_parts(letters, monkeypatch):
    monkeypatch.setattr(OnCpu, "limit", 5)
    captured, simple = both(lambda: tagger(dropout=0.0).double(), letters, SETTINGS)
    np.testing.assert_allclose(captured.losses, simple.losses, rtol=1e-5)
    assert any("4 parts of up to 4" in note for note in captured.notes)
    assert Recorded.replays > 0


@pytest.mark.usefixtures("_fake_cuda")
def test_what_cannot_be_captured_is_run_one_by_one(letters, monkeypatch):
    monkeypatch.setattr(OnCpu, "_capture", _refuses)
    captured, simple = both(lambda: tagger(dropout=0.0).double(), letters, SETTINGS)
    np.testing.assert_allclose(captured.losses, simple.losses, rtol=1e-5)
    assert any(
        "could not be captured as a CUDA graph: operation not permitted" in note
        for note in captured.notes
    )
    assert Recorded.replays == 0


def _refuses(*_):
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


@pytest.mark.parametrize("family", READY_MASKS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_ready_masks_hide_what_masks_hide(family, attention, letters):
    model = tiny(family).double().eval()
    model.set_attn_implementation(attention)
    batch = batches(letters, size=6)[2] | batches(letters, size=6, sort=False)[0]
    if family != "bert":
        batch["token_type_ids"].zero_()
    del batch["labels"]
    mask = batch["attention_mask"].bool()
    assert not mask.all()
    with torch.no_grad():
        simple = model(**batch).logits[mask]
        ready = model(
            **{**batch, "attention_mask": additive(batch["attention_mask"], torch.float64)}
        ).logits[mask]
        none = model(**{**batch, "attention_mask": None}).logits[mask]
    torch.testing.assert_close(ready, simple, rtol=0, atol=1e-10)
    assert (none - simple).abs().max() > 1e-4  # the padding would have been seen


@pytest.mark.skipif(not CUDA, reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("heads", [(), ("encoder.0.1", "encoder.1.3")])
def test_on_a_gpu_graphs_give_the_losses_of_single_steps(precision, heads, letters):
    settings = replace(SETTINGS, precision=precision, epochs=6)
    for options in ({"masked": heads}, {}):
        models = [tagger() if options or not heads else prune(tagger(), heads) for _ in range(2)]
        captured = finetune(models[0], letters, settings, device="cuda", progress=False, **options)
        simple = finetune(
            models[1], letters, settings, device="cuda", progress=False, graphs=False, **options
        )
        assert captured.notes == []
        np.testing.assert_allclose(captured.losses, simple.losses, rtol=0.05)


def test_nothing_of_cuda_is_touched_elsewhere(letters, monkeypatch):
    monkeypatch.setattr(graphs.Graphs, "__init__", _refuses)
    assert finetune(tagger(), letters, SETTINGS, device="cpu", progress=False).state == "done"
