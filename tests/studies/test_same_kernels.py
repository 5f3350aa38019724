"""The numbers of a trial do not depend on what its process computed, or set, before it.

On a CPU that cannot multiply bfloat16 with oneDNN (ARM without bf16), torch switches oneDNN off
for the
whole process at the first such product. The fixture `switches` imitates such a CPU on any other.
"""

import pytest
import torch

from deadhead.studies import load, run_trial

SMALL = [
    *(
        "data.examples=48",
        "targets=[de]",
        "remove=none",
        "finetune.epochs=2",
        "finetune.scored=none",
    ),
    *("steps=[finetune]", "axes={seed: [0]}"),
]


@pytest.fixture(scope="module")
def trial():
    return load("smoke", SMALL).trials[0]


@pytest.fixture(scope="module")
def fresh(trial):
    """What a trial says in a process that changed nothing."""
    torch.backends.mkldnn.enabled = torch.backends.mkldnn.is_available()
    return losses_and_versions(trial)


def losses_and_versions(trial, **options):
    record = run_trial(trial, **options)
    assert record.error is None, record.error
    return [epoch["loss"] for epoch in record.epochs], dict(record.versions)


def bf16():
    """A computation that makes torch switch oneDNN off where the CPU cannot do it."""
    torch.nn.Linear(64, 64, dtype=torch.bfloat16)(
        torch.ones(64, 64, dtype=torch.bfloat16)
    ).sum().backward()


def test_without_onednn_the_digits_are_others(trial, fresh, monkeypatch):
    """Why it is decided: else the tests below would show nothing."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    losses, versions = losses_and_versions(trial)
    assert versions["kernels"] == fresh[1]["kernels"].replace("with ", "without ")
    assert losses == pytest.approx(fresh[0], rel=1e-4)
    if losses == fresh[0]:
        pytest.skip("on this CPU oneDNN changes no digit of this trial")


def test_after_a_computation_in_bf16_that_switches_onednn_off(trial, fresh, switches):
    bf16()
    assert (switches(), torch.backends.mkldnn.enabled) == (1, False)
    assert losses_and_versions(trial) == fresh
    assert not torch.backends.mkldnn.enabled  # as it was before the trial


def test_a_training_in_bf16_computes_without_onednn_where_it_must(trial, fresh, switches):
    """It is isolated: from its first product on it computes without oneDNN, its numbers repeat,
    and others' are left alone."""
    low = load(
        "smoke", [*SMALL, "data.examples=8", "finetune.epochs=1", "finetune.precision=bf16"]
    ).trials[0]
    first = run_trial(low)
    assert first.error is None
    assert (
        "oneDNN has no kernels for bfloat16 on this CPU: trained without oneDNN"
        in first.details["training notes"]
    )
    assert switches() == 1  # when it was tried whether this CPU can, and never in the training
    assert torch.backends.mkldnn.enabled
    assert losses_and_versions(trial) == fresh
    torch.backends.mkldnn.enabled = False
    again = run_trial(low)
    assert again.epochs == first.epochs
    assert [epoch["loss"] for epoch in first.epochs] != fresh[0]
