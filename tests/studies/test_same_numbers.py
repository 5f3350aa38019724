"""A real training gives the same numbers to the last digit, whoever runs it and however many run
beside it."""

import pytest
from networks import can_be_apart
from small_study import stable_records

from deadhead.studies import load, run, run_trial

SMALL = [
    "data.examples=16",
    "targets=[de]",
    "remove=[none, {lowest: 4}, {random_k: 4}]",
    "finetune.epochs=2",
    "finetune.scored=none",
    "rank={examples: 8}",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The records of the serial run."""
    folder = tmp_path_factory.mktemp("serial")
    assert run(load("smoke", SMALL), folder / "s", executor="serial").done == 3
    return stable_records(folder / "s")


ON_RAY = pytest.mark.skipif(can_be_apart(), reason="test_slurm shows the same with two nodes")


@pytest.mark.parametrize(
    "executor", ["local", pytest.param("ray", marks=[pytest.mark.slow, ON_RAY])]
)
def test_every_executor_writes_the_same_records(executor, here, tmp_path, monkeypatch):
    """Equal as text: metrics, losses of every epoch, removed heads, fingerprints, versions."""
    if executor == "ray":
        monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    assert run(load("smoke", SMALL), tmp_path / "s", executor=executor, workers=2).done == 3
    assert stable_records(tmp_path / "s") == here
    losses = {str(record["epochs"]) for record in here.values()}
    assert len(losses) == 3  # the twin: other prunings are other numbers
    assert all(record["versions"]["threads"] == "1" for record in here.values())


def test_a_record_says_how_many_threads_made_its_numbers(monkeypatch):
    """Another number of threads may change the last digits, so it is fixed and recorded."""
    import torch

    changes = ["data.examples=16", "steps=[finetune]", "finetune.epochs=1", "axes={seed: [0]}"]
    trial = load("smoke", [*SMALL, *changes]).trials[0]
    before = torch.get_num_threads()
    one = run_trial(trial)
    monkeypatch.setenv("DEADHEAD_THREADS", "2")
    two = run_trial(trial)
    assert torch.get_num_threads() == before
    assert (one.versions["threads"], two.versions["threads"]) == ("1", "2")
    losses = [[epoch["loss"] for epoch in record.epochs] for record in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
