"""What decides digits: set, on record and restored; and models of half precision leave oneDNN as it
was.
"""

from collections.abc import Callable

import pytest
import torch

from deadhead import rank, save
from deadhead.errors import DeadheadError, UnknownName
from deadhead.heads import discover, gated, prune
from deadhead.numerics import (
    THREADS,
    KernelsSwitched,
    computes_half,
    computing,
    device_named,
    fixed,
    onednn,
    seed,
    threads,
)
from deadhead.saved.bench import bench
from deadhead.verify.proof import prove, sample
from tiny_models import answers, batch_of, build

Switches = Callable[[], int]


def test_a_count_that_is_none_is_refused(monkeypatch):
    for text in ("0", "two", "-1", "1.5"):
        monkeypatch.setenv(THREADS, text)
        with pytest.raises(DeadheadError, match=f"{THREADS}={text}"):
            threads()
    monkeypatch.setenv(THREADS, "")
    with fixed() as record:
        assert record["threads"] == "1"


def test_the_record_says_which_kernels_compute():
    torch.backends.mkldnn.enabled = False
    with fixed() as record:
        assert record["kernels"] == f"{torch.backends.cpu.get_cpu_capability()} with oneDNN"
        assert torch.backends.mkldnn.enabled
    assert not torch.backends.mkldnn.enabled


def test_kernels_that_were_switched_are_an_error_and_another_error_stays_itself():
    with pytest.raises(KernelsSwitched, match="two sets of kernels"), fixed():
        torch.backends.mkldnn.enabled = False
    assert torch.backends.mkldnn.enabled
    with pytest.raises(ZeroDivisionError), fixed():
        _fails_in_bf16()
    assert torch.backends.mkldnn.enabled


def _fails_in_bf16():
    torch.backends.mkldnn.enabled = False
    raise ZeroDivisionError


def test_half_precision_is_tried_once(switches):
    torch.backends.mkldnn.enabled = False
    assert [computes_half(), computes_half()] == [False, False]
    assert switches() == 1
    assert not torch.backends.mkldnn.enabled
    for half in (False, True):
        with onednn(half) as on:
            assert on is torch.backends.mkldnn.enabled is not half


def test_models_of_half_precision_compute_without_onednn_where_they_must(switches):
    model = build("bert").float()
    with computing(model):
        assert torch.backends.mkldnn.enabled
    with computing(model, half=True):
        assert not torch.backends.mkldnn.enabled
    with torch.autocast("cpu", torch.bfloat16), computing(model):
        assert not torch.backends.mkldnn.enabled
    with computing(model.bfloat16()):
        assert not torch.backends.mkldnn.enabled
        answers(model)
    assert switches() == 1  # when it was tried
    assert torch.backends.mkldnn.enabled


def test_whatever_is_done_with_a_model_of_half_precision_leaves_onednn_on(
    switches, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "deadhead.saved.bench._peak_of_process", lambda *rest: None
    )  # measured in processes of their own
    model = build("bert").bfloat16()
    heads = ["encoder.0.1", "encoder.1.0"]
    with gated(model, closed=heads):
        answers(model)
    assert switches() == 1
    assert torch.backends.mkldnn.enabled
    batch = batch_of(model)
    rank(model, [{**batch, "labels": batch["input_ids"]}])
    assert prove(model, batch, sample(discover(model), whole=True)).holds
    save(model, tmp_path / "whole")
    save(prune(model, heads), tmp_path / "pruned")
    bench(tmp_path / "pruned", tmp_path / "whole", batches=[2], lengths=[8], repeats=1)
    assert torch.backends.mkldnn.enabled
    assert switches() == 2  # the second time when it was tried


def test_an_unknown_device_is_refused_with_those_there_are():
    with pytest.raises(UnknownName, match=r"no device 'gpu'\. .*Known: cpu, cuda, mps\."):
        device_named("gpu")


def test_a_seed_gives_the_numbers_of_torch():
    seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(4))
    assert not torch.equal(drawn, torch.rand(4))
