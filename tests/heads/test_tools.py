"""Tools around transformers, the real ones, with a pruned model: trained, resumed, piped, exported."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState
from transformers import Trainer, TrainingArguments, pipeline

from deadhead.heads import discover, head_means, load, prune, save
from deadhead.world import MODELS
from tiny_models import answers, apart, batch_of, build, build_class, uneven

TEXTS = ["Maria bought a red car .", "The dog sleeps ."]


@pytest.fixture(autouse=True)
def fresh_state():
    """accelerate, and Trainer with it, keeps its state in classes, for the whole process."""
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def pruned(name: str):
    """A tiny model, its heads thinned, with the mean output of the removed ones in a bias."""
    options = {"num_labels": 3, "pad_token_id": 0}
    model = build_class(getattr(transformers, name), **options)
    return prune(model, uneven(model), fill=head_means(model, [batch_of(model)]))


def rows(name: str) -> list[dict[str, Any]]:
    """Examples of one length; without labels of their own, a model learns the text itself."""
    drawn = torch.randint(5, 90, (16, 7), generator=torch.Generator().manual_seed(1)).tolist()
    if "Causal" in name:
        return [{"input_ids": row, "labels": row} for row in drawn]
    return [{"input_ids": row, "labels": i % 3} for i, row in enumerate(drawn)]


def trainer(model, folder: Path, steps: int, name: str) -> Trainer:
    settings = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        save_steps=2,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    return Trainer(model=model, args=settings, train_dataset=rows(name))


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "LlamaForCausalLM"])
def test_trainer_trains_resumes_and_saves(name, tmp_path):
    model = pruned(name)
    layout, start = discover(model), answers(model)
    training = trainer(model, tmp_path / "runs", 4, name)
    training.train()
    trained = answers(model.eval())
    assert apart(trained, start) > 1e-3
    assert discover(model) == layout
    training.save_model(str(tmp_path / "saved"))
    assert apart(trained, answers(load(tmp_path / "saved").eval())) == 0
    # stopped after two steps, and continued in a model that was loaded from the checkpoint
    halfway = load(tmp_path / "runs/checkpoint-2").eval()
    assert discover(halfway) == layout
    assert apart(answers(halfway), trained) > 1e-3
    resumed = trainer(halfway, tmp_path / "resumed", 4, name)
    resumed.train(resume_from_checkpoint=str(tmp_path / "runs/checkpoint-2"))
    assert apart(answers(halfway.eval()), trained) < 1e-9
    # a checkpoint of a pruned model does not fit the whole one
    whole = build_class(getattr(transformers, name), num_labels=3, pad_token_id=0)
    with pytest.raises(RuntimeError, match="size mismatch"):
        trainer(whole, tmp_path / "whole", 4, name).train(
            resume_from_checkpoint=str(tmp_path / "runs/checkpoint-2")
        )


def test_accelerate_saves_and_restores_its_state(tmp_path):
    accelerator = accelerate.Accelerator(cpu=True)
    model = pruned("LlamaForCausalLM")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    ids = torch.tensor([row["input_ids"] for row in rows("Causal")])

    def step() -> list[torch.Tensor]:
        accelerator.backward(prepared(input_ids=ids, labels=ids).loss)
        optimizer.step()
        optimizer.zero_grad()
        return answers(prepared)

    step()
    accelerator.save_state(str(tmp_path / "state"))
    before, after = answers(prepared), step()
    assert apart(before, after) > 1e-4
    accelerator.load_state(str(tmp_path / "state"))
    assert apart(before, answers(prepared)) == 0
    assert apart(after, step()) < 1e-9
    save(accelerator.unwrap_model(prepared), tmp_path / "model")
    assert apart(answers(prepared), answers(load(tmp_path / "model").eval())) == 0


def test_pipeline_takes_the_model_or_a_padded_folder(tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    size = {"vocab_size": len(tokenizer), "num_labels": 3, "pad_token_id": 0}
    model = build_class(transformers.BertForSequenceClassification, **size)
    whole = copy.deepcopy(model)
    prune(model, uneven(model))
    save(model, tmp_path / "small", tokenizer)
    save(model, tmp_path / "anywhere", tokenizer, form="padded")

    def scores(model, **options) -> torch.Tensor:
        classify = pipeline("text-classification", model, top_k=None, device="cpu", **options)
        ordered = (sorted(row, key=lambda s: s["label"]) for row in classify(TEXTS))
        return torch.tensor([[s["score"] for s in row] for row in ordered])

    with torch.no_grad():
        batches = [tokenizer(text, return_tensors="pt") for text in TEXTS]
        expected = torch.cat([model(**batch).logits.softmax(-1) for batch in batches]).float()
    for result in (
        scores(model, tokenizer=tokenizer),
        scores(load(tmp_path / "small"), tokenizer=tokenizer),
        scores(str(tmp_path / "anywhere")),
    ):
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)
    assert float((scores(whole, tokenizer=tokenizer) - expected).abs().max()) > 1e-3
    with pytest.raises(ValueError, match="this model is pruned"):
        scores(str(tmp_path / "small"))


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_torch_export(family):
    model = build(family, use_cache=False) if family == "llama" else build(family)
    whole = answers(model)
    first = discover(model).attentions[0].heads  # a layer without heads, too
    prune(model, {*uneven(model), *first})
    ids = {"input_ids": torch.tensor([[5, 9, 3, 7], [8, 2, 6, 4]])}
    program = torch.export.export(model, (), ids, strict=False)
    other = {"input_ids": torch.tensor([[7, 1, 2, 9], [3, 3, 8, 5]])}
    with torch.no_grad():
        expected = model(**other)[0]
        result = program.module()(**other)[0]
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)
    assert apart(whole, answers(model)) > 1e-3


def test_torch_save_of_a_model_and_of_its_weights(tmp_path):
    """The weights alone are read without running code; a pickled model needs trust, as any does."""
    model = pruned("LlamaForCausalLM")
    torch.save(model, tmp_path / "model.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(Exception, match="weights_only"):
        torch.load(tmp_path / "model.pt")
    trusted = torch.load(tmp_path / "model.pt", weights_only=False)
    assert apart(answers(model), answers(trusted)) == 0
    save(model, tmp_path / "saved")
    again = load(tmp_path / "saved").eval()
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    again.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert apart(answers(model), answers(again)) == 0
    whole = build_class(transformers.LlamaForCausalLM, pad_token_id=0)
    with pytest.raises(RuntimeError, match=r"o_proj\.bias"):
        whole.load_state_dict(model.state_dict())


@pytest.mark.parametrize("convert", ["half", "bfloat16", "double"])
def test_precisions_keep_the_added_biases(convert, tmp_path):
    model = pruned("LlamaForCausalLM").float()
    layout = discover(model)
    getattr(model, convert)()
    model.to("cpu")
    assert {p.dtype for p in model.parameters()} == {model.dtype}
    assert discover(model) == layout
    model.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.dtype == model.dtype
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
