"""The memory plan: exact for weights, and close to what a tracker of tensors sees in a run."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, LlamaConfig

from architectures.tiny import tiny
from deadhead import prune, rank, save, shrinking
from deadhead.cli import main
from deadhead.errors import DataError, UnsupportedModel
from deadhead.saved.memory import memory_plan
from deadhead.shrinking.streams import MEMORY

BATCH, LENGTH = 2, 96


class Peak(TorchDispatchMode):
    """The most bytes that tensors made inside of the block took at a time, without weights."""

    def __init__(self, model):
        super().__init__()
        self.weights = {p.untyped_storage()._cdata for p in model.parameters()}
        self.now = self.most = 0
        self.alive: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor.untyped_storage())
        return result

    def add(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self.alive or key in self.weights:  # views of weights are no new memory
            return

        def drop(_):
            self.now -= size
            del self.alive[key]

        self.alive[key] = weakref.ref(storage, drop)
        self.now += size
        self.most = max(self.most, self.now)


def small_llama(layers: int = 6):
    config = LlamaConfig(
        num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=4, hidden_size=128,
        intermediate_size=320, vocab_size=600, max_position_embeddings=256,
        attn_implementation="sdpa",
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("checkpointing", [False, True])
def test_ranking_takes_what_is_planned(checkpointing):
    model = small_llama()
    ids = torch.randint(3, 600, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    plan = memory_plan(model, batch=BATCH, length=LENGTH)
    assert plan.total == sum(p.nbytes for p in model.parameters())
    with Peak(model) as peak:
        rank(
            model, [{"input_ids": ids, "labels": ids}], progress=False, checkpointing=checkpointing
        )
    planned = plan.peaks["rank --gradient-checkpointing" if checkpointing else "rank"]
    assert planned == pytest.approx(plan.total + peak.most, rel=0.15)
    assert peak.most > plan.total / 4  # or the weights alone decide
    assert all(not p.is_meta for p in model.parameters())


def test_a_refit_takes_what_is_planned():
    """The outputs of layers for 64 examples, which are few beside what a refit may keep."""
    model, examples = small_llama(), 64
    ids = torch.randint(3, 600, (examples, LENGTH), generator=torch.Generator().manual_seed(0))
    batches = [{"input_ids": part} for part in ids.split(1)]
    plan, twice = (memory_plan(model, length=LENGTH, examples=n * examples) for n in (1, 2))
    with Peak(model) as peak:
        heads = [f"decoder.{layer}.{head}" for layer in (0, 5) for head in (0, 1)]
        shrinking.refit(model, batches, heads, progress=False)
    outputs = 2 * examples * LENGTH * 128 * 4
    assert peak.most > outputs  # of one layer, in the whole model and in the small one
    assert plan.peaks["shrink: refit"] == pytest.approx(plan.total + peak.most, rel=0.15)
    assert twice.peaks["shrink: refit"] == plan.peaks["shrink: refit"] + outputs


def test_a_refit_keeps_no_more_than_its_bound():
    plans = [memory_plan(small_llama(2), length=200, examples=n) for n in (10**6, 10**7)]
    assert plans[0].peaks == plans[1].peaks
    assert plans[0].peaks["shrink: refit"] > MEMORY


def test_a_saved_model_is_planned_from_its_headers(tmp_path):
    model = small_llama(2).half()
    save(prune(model, ["decoder.0.0", "decoder.0.1"]), tmp_path / "small")
    plan = memory_plan(tmp_path / "small", batch=1, length=32)
    assert plan.weights == {"float16": sum(p.nbytes for p in model.parameters())}
    assert plan.cache_per_token == 2 * 2 * 16 * (3 + 4)
    assert plan.peaks == memory_plan(model, batch=1, length=32).peaks
    longer = memory_plan(model, batch=1, length=64).peaks
    assert longer["rank"] > plan.peaks["rank"]
    assert longer["prune"] == plan.peaks["prune"]
    assert plan.peaks["prune --by-shards"] < plan.peaks["prune"]
    assert plan.to_dict()["fits"]["prune"] is True


@pytest.mark.parametrize("kind", ["bert", "bart", "gpt2", "t5"])
def test_other_kinds_of_text_models(kind):
    plan = memory_plan(tiny(kind), batch=2, length=8)
    assert plan.peaks["finetune"] > plan.peaks["rank"] > plan.total


@pytest.mark.parametrize(
    ("kind", "positions", "most"),
    [("bert", 96, 96), ("roberta", 96, 95), ("bert", 600, 512), ("t5", None, 512)],
)
def test_no_more_tokens_than_the_model_has_positions(kind, positions, most):
    model = tiny(kind, **({} if positions is None else {"max_position_embeddings": positions}))
    assert memory_plan(model).shape == (1, most)
    if positions == 96:
        with pytest.raises(
            DataError, match=rf"at most {most} tokens, .* got 97[\s\S]*--on 1x{most}"
        ):
            memory_plan(model, length=97)


def test_a_model_of_images_is_refused():
    with pytest.raises(UnsupportedModel, match="texts"):
        memory_plan(tiny("vit"))


def test_the_command(tmp_path, capsys, monkeypatch):
    tiny("bert").save_pretrained(tmp_path / "model")
    monkeypatch.setattr("sys.argv", ["deadhead", "heads", str(tmp_path / "model"), "--memory"])
    with pytest.raises(SystemExit) as done:
        main()
    assert not done.value.code
    printed = capsys.readouterr().out
    assert "prune --by-shards" in printed
    assert "Batches of 1 x 128 tokens" in printed  # its positions


def test_the_file_cache_counts_as_available(tmp_path, monkeypatch):
    """Free pages are few after large files were read, though the system gives their pages back."""
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 24000000 kB\nMemFree: 400000 kB\nMemAvailable: 18000000 kB\n")
    monkeypatch.setattr("deadhead.saved.memory.MEMINFO", file)
    assert memory_plan(tiny("llama"), device="cpu").available == 18_000_000 * 1024
