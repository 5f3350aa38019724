"""`deadhead finetune --lora` trains adapters beside frozen weights and merges them."""

import json
import sys

import pytest
import torch
from command_line import clean
from transformers import AutoTokenizer

from deadhead import discover, load, prune, save
from deadhead.tasks import encode, load_data
from deadhead.training import Settings, finetune
from deadhead.training.lora import RATE, add_adapters
from deadhead.world import MODELS

ENCODER = MODELS / "encoder"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """The encoder without its first layer of heads, some others, and some neurons."""
    heads = [*(f"encoder.0.{i}" for i in range(8)), "encoder.2.1", "encoder.4.7"]
    model = prune(load(ENCODER), heads, neurons={("encoder", 1): [0, 5, 6]})
    folder = tmp_path_factory.mktemp("models") / "start"
    return save(model, folder, AutoTokenizer.from_pretrained(ENCODER))


def learn(run, model, out, *more):
    words = ("--task", "pos", "--lang", "en", "--data", "world", "--max-examples", 64)
    options = ("--epochs", 2, "--device", "cpu", "--out", out)
    return run("finetune", model, *words, *options, *more)


def test_only_adapters_and_the_classifier_change(run_command, start, tmp_path):
    out = tmp_path / "out"
    done = learn(run_command, start, out, "--lora", 4, "--learning-rate", 5e-3, "--json")
    facts = json.loads(done.out)
    assert done.code == 0, done.err
    assert "LoRA of rank 4: trains" in done.err
    assert facts["losses"][1] < facts["losses"][0]
    before, after = load(start), load(out)
    assert discover(after).removed == discover(before).removed
    assert not [name for name in after.state_dict() if "lora" in name]
    old, new = before.state_dict(), after.state_dict()
    shared = [name for name in new if name in old and new[name].numel()]
    changed = {name for name in shared if not torch.equal(old[name], new[name])}
    assert changed == {n for n in shared if n.endswith("weight") and _is_projection(after, n)}
    ranks = {
        int(torch.linalg.matrix_rank(new[n] - old[n], rtol=1e-3))
        for n in changed
        if min(new[n].shape) > 8
    }
    assert max(ranks) <= 4
    assert "LoRA of rank 4" in (out / "README.md").read_text()


def _is_projection(model, name):
    module = model.get_submodule(name.removesuffix(".weight"))
    return isinstance(module, torch.nn.Linear) and name.startswith("bert.encoder")


def test_the_saved_model_is_the_trained_one(start):
    """Merging changes no prediction, and a training is the same again with the same seed."""
    tokenizer = AutoTokenizer.from_pretrained(start)
    data = load_data("pos", "en", "dev", root="world")
    encoded = encode(data, tokenizer)
    batch = {"input_ids": torch.tensor([tokenizer("Maria bought a red car .")["input_ids"]])}
    logits = []
    for _ in range(2):
        torch.manual_seed(0)
        fields = {"id2label": dict(enumerate(data.labels))}
        model = load(start, auto="AutoModelForTokenClassification", **fields).eval()
        adapters = add_adapters(model, 2, seed=1, classifier=True)
        finetune(model, encoded, Settings(epochs=1, rate=5e-3), progress=False)
        with torch.no_grad():
            trained = model(**batch).logits
            merged = adapters.merge_and_unload().eval()(**batch).logits
        assert torch.allclose(trained, merged, atol=1e-4)
        logits.append(merged)
    assert torch.equal(*logits)


def test_an_interrupted_training_resumes(run_command, start, tmp_path, monkeypatch):
    from deadhead.training.checkpoint import Folder

    learn(run_command, start, tmp_path / "through", "--lora", 2)
    save_state = Folder.save

    def stop(self, epoch, *rest):
        save_state(self, epoch, *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "save", stop)
        assert learn(run_command, start, tmp_path / "out", "--lora", 2).code != 0
    other = learn(run_command, start, tmp_path / "out", "--lora", 3)
    assert "--lora was 2 and is 3" in other.err
    done = learn(run_command, start, tmp_path / "out", "--lora", 2)
    assert done.code == 0
    assert "resuming after epoch 1 of 2" in done.err
    through, resumed = (load(tmp_path / name).state_dict() for name in ("through", "out"))
    assert all(torch.equal(through[name], resumed[name]) for name in through)


def test_its_rate_and_what_is_missing(run_command, start, tmp_path, monkeypatch):
    done = learn(run_command, start, tmp_path / "out", "--lora", 2, "--epochs", 1, "--json")
    assert json.loads(done.out)["settings"]["rate"] == RATE
    assert learn(run_command, start, tmp_path / "other", "--lora", 0).code == 2
    monkeypatch.setitem(sys.modules, "peft", None)
    done = learn(run_command, start, tmp_path / "other", "--lora", 2)
    assert done.code == 1
    assert clean(done)
    assert "training with LoRA needs the package 'peft', which is not installed." in done.err
    assert "lora" in done.err.split("Hint:")[1]
    assert not (tmp_path / "other").exists()
