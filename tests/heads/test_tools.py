"""Real tools around transformers with a pruned model: trained, resumed, piped, exported."""

import pytest
import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState
from transformers import Trainer, TrainingArguments, pipeline

from deadhead.heads import discover, head_means, load, prune, save
from deadhead.world import MODELS
from tiny_models import answers, apart, batch_of, build_class, uneven

TEXTS = ["Maria bought a red car .", "The dog sleeps ."]


@pytest.fixture(autouse=True)
def fresh_state():
    """accelerate, and Trainer with it, keeps its state in classes, for the whole process."""
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def pruned(name):
    """A tiny model, its heads thinned, with the mean output of the removed ones in a bias."""
    options = {"num_labels": 3, "pad_token_id": 0}
    model = build_class(getattr(transformers, name), **options)
    return prune(model, uneven(model), fill=head_means(model, [batch_of(model)]))


def rows(name):
    """Examples of one length; without labels of their own, a model learns the text itself."""
    drawn = torch.randint(5, 90, (16, 7), generator=torch.Generator().manual_seed(1)).tolist()
    if "Causal" in name:
        return [{"input_ids": row, "labels": row} for row in drawn]
    return [{"input_ids": row, "labels": i % 3} for i, row in enumerate(drawn)]


def trainer(model, folder, steps, name):
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


def test_pipeline_takes_the_model_or_a_padded_folder(tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    size = {"vocab_size": len(tokenizer), "num_labels": 3, "pad_token_id": 0}
    model = build_class(transformers.BertForSequenceClassification, **size)

    def scores(model, **options):
        classify = pipeline("text-classification", model, top_k=None, device="cpu", **options)
        ordered = (sorted(row, key=lambda s: s["label"]) for row in classify(TEXTS))
        return torch.tensor([[s["score"] for s in row] for row in ordered])

    whole = scores(model, tokenizer=tokenizer)
    prune(model, uneven(model))
    expected = scores(model, tokenizer=tokenizer)
    assert float((whole - expected).abs().max()) > 1e-3
    save(model, tmp_path / "padded", tokenizer, form="padded")
    for folder in (load(tmp_path / "padded"), str(tmp_path / "padded")):
        result = scores(folder, tokenizer=tokenizer)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)
