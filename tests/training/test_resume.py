"""A killed training resumes with the same numbers, and its folder says what is in it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_tasks import bert, classify, tagger, weights

from deadhead import prune
from deadhead.errors import FolderError
from deadhead.training import Settings, checkpoint, finetune

SETTINGS = Settings(batch=8, rate=3e-3, epochs=4)

KILLED = """
import os, signal, sys
import small_tasks
from deadhead.training import Settings, finetune
from test_resume import SETTINGS

def at(tick):
    if (tick.epoch, tick.update) == (3, 3):
        os.kill(os.getpid(), signal.SIGKILL)

data = small_tasks.tag(sys.argv[1])
finetune(small_tasks.tagger(), data, SETTINGS, dev=data, \
folder=sys.argv[2], keep_first=True, progress=at)
"""


def test_killed_within_an_epoch_it_resumes_to_the_same_numbers(letters, cache, tmp_path):
    whole = tagger()
    reference = finetune(whole, letters, SETTINGS, dev=letters, keep_first=True, progress=False)
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(cache), str(tmp_path / "trial")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == -signal.SIGKILL, run.stderr
    stored = json.loads((tmp_path / "trial" / "history.json").read_text())
    assert (stored["state"], len(stored["epochs"])) == ("running", 2)
    ticks: list[Any] = []
    torch.manual_seed(99)  # neither the numbers of this process nor the weights given matter
    model = tagger()
    torch.nn.init.ones_(model.classifier.weight)
    history = finetune(
        model,
        letters,
        SETTINGS,
        dev=letters,
        folder=tmp_path / "trial",
        keep_first=True,
        progress=ticks.append,
    )
    assert [(t.epoch, t.update) for t in ticks] == [
        (e, u) for e in (3, 4) for u in range(1, 6)
    ]  # only what was missing
    assert history.losses == reference.losses
    assert [e.scores for e in history.epochs] == [e.scores for e in reference.epochs]
    assert torch.equal(weights(model), weights(whole))
    for which in ("first", "best", "last"):
        assert torch.equal(
            weights(history.restore(model, which)), weights(reference.restore(whole, which))
        )
    assert sorted(f.name for f in (tmp_path / "trial").iterdir()) == [
        "best.safetensors",
        "first.safetensors",
        "history.json",
        "last.safetensors",
    ]


def test_a_state_that_takes_long_to_write_is_not_written_after_each_epoch(
    letters, tmp_path, monkeypatch
):
    """Writing takes 3 seconds and an epoch 20: at most a tenth of the time goes into writing."""
    now, kept, put_folder = [0.0], [], checkpoint.files.put_folder

    def slow(path, fill):
        put_folder(path, fill)
        kept.append(path.name)
        now[0] += 3

    def tick_until(epoch, update):
        def show(tick):
            now[0] += 4  # an epoch has five updates
            if (tick.epoch, tick.update) == (epoch, update):
                raise KeyboardInterrupt

        return show

    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(checkpoint.files, "put_folder", slow)
    reference = finetune(tagger(), letters, SETTINGS, dev=letters, progress=False)
    trained: dict[str, Any] = {"dev": letters, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        finetune(tagger(), letters, SETTINGS, progress=tick_until(3, 2), **trained)
    assert kept == ["epoch-1"]  # and not epoch 2
    again = finetune(tagger(), letters, SETTINGS, progress=tick_until(9, 1), **trained)
    assert kept == ["epoch-1", "epoch-2", "epoch-4"]
    assert again.losses == reference.losses
    assert [e.scores for e in again.epochs] == [e.scores for e in reference.epochs]


def test_kernels_that_were_switched_off_before_change_no_number(letters):
    """As a computation in bfloat16 does, for the whole process, on a CPU that cannot do it."""
    models = [tagger(), tagger()]
    first = finetune(models[0], letters, SETTINGS, dev=letters, progress=False)
    torch.backends.mkldnn.enabled = False
    second = finetune(models[1], letters, SETTINGS, dev=letters, progress=False)
    assert not torch.backends.mkldnn.enabled
    assert second.losses == first.losses
    assert torch.equal(*map(weights, models))


def test_a_finished_training_is_not_run_again(foxes, tmp_path):
    model = bert()
    first = finetune(model, foxes, SETTINGS, folder=tmp_path, progress=False)
    again = bert()
    second = finetune(again, foxes, SETTINGS, folder=tmp_path, progress=_fails)
    assert second.losses == first.losses
    assert second.state == "done"
    assert torch.equal(weights(model), weights(again))
    assert not torch.equal(weights(model), weights(bert()))


def test_parts_that_memory_needed_stay_when_it_resumes(letters, tmp_path):
    """With dropout, parts of another size draw other numbers, so a resumed run keeps the size."""

    def tight(memory):
        model = tagger()
        forward = model.bert.encoder.forward

        def run(hidden, *args, **kwargs):
            if model.training and len(hidden) > 4 and not memory:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward(hidden, *args, **kwargs)

        model.bert.encoder.forward = run
        return model

    def stop(tick):
        if (tick.epoch, tick.update) == (3, 3):
            raise KeyboardInterrupt

    reference = finetune(tight(False), letters, SETTINGS, progress=False)
    with pytest.raises(KeyboardInterrupt):
        finetune(tight(False), letters, SETTINGS, folder=tmp_path, progress=stop)
    again = finetune(tight(True), letters, SETTINGS, folder=tmp_path, progress=False)
    assert again.losses == reference.losses
    assert again.notes == reference.notes != []


def _fails(_):
    raise AssertionError("it was trained again")


def test_the_folder_of_another_training_is_refused(foxes, cache, tmp_path):
    finetune(bert(), foxes, SETTINGS, folder=tmp_path, progress=False)
    for data, settings, options in (
        (foxes, replace(SETTINGS, seed=1), {}),
        (classify(cache, n=20), SETTINGS, {}),
        (foxes, SETTINGS, {"masked": ["encoder.0.1"]}),
    ):
        with pytest.raises(FolderError, match="has another training"):
            finetune(bert(), data, settings, folder=tmp_path, progress=False, **options)


def _stop(tick):
    if tick.epoch == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "file",
    [
        "history.json",
        "epoch-1/history.json",
        "epoch-1/weights.safetensors",
        "epoch-1/moments.safetensors",
    ],
)
def test_a_damaged_state_is_an_error(foxes, tmp_path, file):
    with pytest.raises(KeyboardInterrupt):
        finetune(bert(), foxes, SETTINGS, folder=tmp_path, progress=_stop)
    os.truncate(tmp_path / file, 9)
    with pytest.raises(FolderError, match=r"(?s)cannot be read.*remove") as problem:
        finetune(bert(), foxes, SETTINGS, folder=tmp_path, progress=False)
    assert file in str(problem.value)


def test_a_result_without_its_weights_is_an_error(foxes, tmp_path):
    finetune(bert(), foxes, SETTINGS, folder=tmp_path, progress=False)
    (tmp_path / "last.safetensors").unlink()
    with pytest.raises(FolderError, match="the weights after the last epoch were not kept"):
        finetune(bert(), foxes, SETTINGS, folder=tmp_path, progress=False)


def test_the_folder_of_a_model_cut_differently_is_refused(foxes, tmp_path):
    """The same number of heads gone from the same layer: the same shapes, another model."""
    first, other = (prune(bert(), [head]) for head in ("encoder.0.1", "encoder.0.2"))
    assert [p.shape for p in first.parameters()] == [p.shape for p in other.parameters()]
    finetune(first, foxes, SETTINGS, folder=tmp_path, progress=False)
    with pytest.raises(FolderError, match="has another training"):
        finetune(other, foxes, SETTINGS, folder=tmp_path, progress=False)
    again = prune(bert(), ["encoder.0.1"])
    finetune(again, foxes, SETTINGS, folder=tmp_path, progress=_fails)
    assert torch.equal(weights(again), weights(first))


def test_a_failure_is_on_record(foxes, tmp_path):
    settings = Settings(batch=8, rate=1e30, epochs=2, warmup=0, clip=None)
    history = finetune(bert(), foxes, settings, folder=tmp_path, progress=False)
    stored = json.loads((tmp_path / "history.json").read_text())
    assert stored["state"] == history.state == "failed"
    assert stored["reason"] == history.reason
    ticks: list[Any] = []
    assert (
        finetune(bert(), foxes, settings, folder=tmp_path, progress=ticks.append).reason
        == history.reason
    )
    assert ticks  # called again, it is tried again


def test_weights_that_were_not_kept(foxes):
    history = finetune(bert(), foxes, Settings(epochs=1), progress=False)
    with pytest.raises(FolderError, match="keep_first=True"):
        history.restore(bert(), "first")
    with pytest.raises(FolderError, match="in a new folder"):  # what is done is not trained again
        history.restore(bert(), "first")
    with pytest.raises(FolderError, match="do not fit"):
        history.restore(bert(labels=4), "last")
