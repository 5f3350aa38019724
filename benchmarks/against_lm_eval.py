"""Whether the task `choice` computes what lm-evaluation-harness computes, also for a pruned model.

    python benchmarks/against_lm_eval.py [--model FOLDER] [--json results.json]

Both get the same model, the harness as `HFLM(pretrained=model, tokenizer=tokenizer)`: whole, and
then pruned (heads and neurons, a layer without heads), saved and loaded. The table has the largest
difference between the log-likelihoods of the same option, beside the largest change that pruning
made, and the three accuracies of both. The small models are random; `--model` adds a decoder in a
folder. All have float64 weights: in float32, rounding alone moves a log-likelihood of -100 by 1e-3,
since the two put the options into different batches. The process ends with 1 if a log-likelihood
differs by more than 1e-4 or an accuracy at all.

test_against_lm_eval.py runs it on the small models.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from deadhead import discover, load, prune, save
from deadhead.tasks import Dataset, Row, dataset, encode
from deadhead.tasks.task import CHOICE_METRICS
from deadhead.training.evaluation import predict
from deadhead.training.inference import option_likelihoods

LIMIT = 1e-4
LENGTH = 48  # sub-words of a window: the longest context is cut
PACKAGES = ("torch", "transformers", "lm-eval")
SHARED = {"initializer_range": 0.3}
MARKS = {"bos_token_id": 0, "eos_token_id": 1}
CONFIGS = {
    "GPT-2": lambda size: transformers.GPT2Config(
        n_embd=64, n_layer=3, n_head=8, n_positions=128, vocab_size=size, **MARKS, **SHARED
    ),
    "Llama": lambda size: transformers.LlamaConfig(
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=96,
        max_position_embeddings=128,
        vocab_size=size,
        **SHARED,
    ),
}
# a context, its options, and the number of the right one
QUESTIONS: list[tuple[str, list[str], int]] = [
    ("The capital of France is", ["Berlin", "Paris", "Madrid", "Rome"], 1),
    ("The capital of Germany is", ["Berlin", "Paris", "Madrid", "Rome"], 0),
    ("The capital of Japan is", ["Kyoto", "Osaka", "Tokyo", "Beijing"], 2),
    ("The opposite of hot is", ["cold", "warm", "a red car"], 0),
    ("The opposite of up is", ["down", "the ceiling"], 0),
    ("Two plus two is", ["three", "four", "five", "twenty-two", "six hundred and one"], 1),
    ("A cow gives", ["milk", "petrol", "a long and detailed speech about the weather"], 0),
    ("Water freezes at zero degrees", ["Celsius", "Fahrenheit", "Kelvin"], 0),
    ("The sun rises in the", ["east", "west", "north", "south"], 0),
    ("Fish live in", ["the sky", "water", "books"], 1),
    ("She put on her coat because it was", ["cold outside", "Tuesday in the library"], 0),
    ("He drank a glass of water because he was", ["thirsty", "a window", "made of wood"], 0),
    ("The largest city of Switzerland is", ["Zürich", "Genève", "Bern"], 0),
    ("日本の首都は", ["東京", "京都市", "大阪"], 0),
    ("The author of Hamlet is", ["William Shakespeare", "Charles Dickens", "Jane Austen"], 0),
    ("At night one can see the", ["stars", "sun", "inside of a closed box"], 0),
    ("The first month of the year is", ["January", "June", "December"], 0),
    ("A triangle has", ["three sides", "four sides", "no sides at all"], 0),
    ("Bees make", ["honey", "wool", "cheese"], 0),
    ("This is a story about nothing. " * 12 + "It ends with the word", ["end", "nothing"], 0),
]
# only for log-likelihoods: the harness writes a blank of its own between context and option
ODD: list[tuple[str, list[str], int]] = [
    ("The capital of France is ", ["Berlin", "Paris"], 1),
    ("The capital of France is  ", ["Berlin", "Paris"], 1),
    ("The capital of France is\n", ["Berlin", "Paris"], 1),
    ("", ["The sun rises in the east.", "Fish live in the sky."], 0),
    ("Answer:", ["yes", "no"], 0),
]


def tokenizer_of(begins: bool) -> Any:
    """A byte-level tokenizer of a few hundred pieces without a pad token.

    begins: it writes a token before every text, as that of Llama does.
    """
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"{context} {' '.join(options)}" for context, options, _ in QUESTIONS]
    built.train_from_iterator(texts, trainer)
    if begins:
        built.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=built, bos_token="<s>", eos_token="</s>")


def small(name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    tokenizer = tokenizer_of(begins=name == "Llama")
    model = AutoModelForCausalLM.from_config(CONFIGS[name](len(tokenizer)))
    return model.double().eval(), tokenizer


def stored(folder: Path) -> tuple[Any, Any]:
    return load(folder).double().eval(), AutoTokenizer.from_pretrained(folder)


def pruned(model: Any, tokenizer: Any, folder: Path) -> Any:
    """The model without the heads of its middle layer, a group of the last, and some neurons."""
    layout = discover(model, neurons=True)
    (block,) = layout.blocks
    attentions = layout.of(block)
    heads = [*attentions[len(attentions) // 2].heads, *attentions[-1].groups[0]]
    neurons = {(f.block, f.layer): f.kept[::3] for f in layout.feed_forwards[:2]}
    prune(model, heads, neurons=neurons)
    return load(save(model, folder, tokenizer), dtype="float64").eval()


def data_of(questions: list[tuple[str, list[str], int]], blank: str) -> Dataset:
    """The rows, with a blank before every option."""
    rows = [Row((c, *(blank + o for o in options)), (str(n),)) for c, options, n in questions]
    return dataset("choice", "", "test", rows)


def harness_likelihoods(harness: Any, data: Dataset) -> np.ndarray:
    pairs = [(row.texts[0], option) for row in data.rows for option in row.texts[1:]]
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=i)
        for i, pair in enumerate(pairs)
    ]
    return np.array([value for value, _ in harness.loglikelihood(requests, disable_tqdm=True)])


def harness_scores(harness: Any, folder: Path) -> dict[str, float]:
    """The accuracies of the harness, by a task in its own format."""
    records = [{"context": c, "options": o, "answer": n} for c, o, n in QUESTIONS]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    task = ConfigurableTask(
        config={
            "task": "questions",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(file)}},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{context}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": "{{answer}}",
            "metric_list": [
                {"metric": name, "aggregation": "mean", "higher_is_better": True}
                for name in CHOICE_METRICS
            ],
        }
    )
    manager = TaskManager(include_defaults=False)  # reads none of the thousands of its own tasks
    results = lm_eval.simple_evaluate(
        harness, tasks=[task], task_manager=manager, bootstrap_iters=0, verbosity="ERROR"
    )
    own = results["results"]["questions"]
    return {name: own[f"{name},none"] for name in CHOICE_METRICS}


def compared(name: str, model: Any, tokenizer: Any, before: np.ndarray | None) -> dict[str, Any]:
    # a window of deadhead holds the last sub-word of an option too, which no model has to read
    harness = HFLM(pretrained=model, tokenizer=tokenizer, max_length=LENGTH - 1, batch_size=4)
    sets = data_of(QUESTIONS, " "), data_of(ODD, "")
    ours, theirs = [], []
    for data in sets:
        encoded = encode(data, tokenizer, max_length=LENGTH)
        ours.append(option_likelihoods(model, encoded))
        theirs.append(harness_likelihoods(harness, data))
    encoded = encode(sets[0], tokenizer, max_length=LENGTH)
    values = np.concatenate(ours)
    with tempfile.TemporaryDirectory() as folder:
        scores = harness_scores(harness, Path(folder))
    return {
        "model": name,
        "options": len(values),
        "contexts cut": encoded.notes["contexts cut on the left"],
        "difference": float(np.abs(values - np.concatenate(theirs)).max()),
        "moved": 0.0 if before is None else float(np.abs(values - before).max()),
        "ours": dict(predict(model, encoded).score(sets[0])),
        "theirs": scores,
        "values": values,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a decoder in a folder")
    parser.add_argument("--json", type=Path, help="the file to write the numbers to")
    options = parser.parse_args()
    sources = [(name, lambda name=name: small(name)) for name in CONFIGS]
    if options.model:
        sources.append((options.model.name, lambda: stored(options.model)))
    rows = []
    for name, source in sources:
        model, tokenizer = source()
        rows.append(compared(name, model, tokenizer, None))
        with tempfile.TemporaryDirectory() as folder:
            model = pruned(model, tokenizer, Path(folder) / "pruned")
            rows.append(compared(f"{name}, pruned", model, tokenizer, rows[-1]["values"]))
    for row in rows:
        del row["values"]
    table = Table("model", "options", "largest difference", "moved by", *CHOICE_METRICS)
    for row in rows:
        scores = (f"{row['ours'][m]:.3f} {row['theirs'][m]:.3f}" for m in CHOICE_METRICS)
        cells = str(row["options"]), f"{row['difference']:.1e}", f"{row['moved']:.2f}"
        table.add_row(row["model"], *cells, *scores)
    Console().print(table)
    if options.json:
        facts = {"versions": {name: version(name) for name in PACKAGES}, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    sys.exit(any(row["difference"] > LIMIT or row["ours"] != row["theirs"] for row in rows))


if __name__ == "__main__":
    main()
