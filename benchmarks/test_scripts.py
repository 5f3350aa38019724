"""Each script runs on tiny inputs, and its rows have the keys of the committed results."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import glue_data
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from deadhead import save
from deadhead.world import MODELS
from gguf_models import byte_tokenizer
from tiny_sentence_encoders import TEXTS, sentence_encoder

RESULTS = Path(__file__).parent / "results"
RECIPE = """
steps: [prune, finetune, evaluate]
fixed:
  model: world/encoder
  task: sst2
  source: en
  splits: dev
  data: {root: world, examples: 64}
  prune: {drop_output_bias: true}
  finetune: {epochs: 1, weights: best}
axes: {remove: [none, {random: 50}, {layers: bottom 1}], draw: [0, 1]}
"""
ENCODER = MODELS / "encoder"


class Run(NamedTuple):
    """A run of a script, and the committed results whose rows it must resemble."""

    script: str
    arguments: str  # names in braces are files and folders of `inputs`
    results: tuple[str, ...] = ()
    since: str = ""  # a key that the script writes since then
    constants: Mapping[str, Any] = MappingProxyType({})  # constants of the script, for this run


# Scripts that a file of tests runs by their functions, and those that run inside another one.
ELSEWHERE = {
    "against_lm_eval", "circuits_page", "glue_data", "in_runtimes", "kwon_authors", "peers_lm",
    "rankings_page", "runtime_worker", "shrink_curves", "shrink_curves_report", "shrink_latency",
    "shrink_lm_curves", "shrink_lm_latency",
}  # fmt: skip
# Each needs a package that no extra of deadhead has, a model that knows its words, or minutes.
BY_HAND = {
    "against_transformer_lens", "circuits", "circuits_lens", "language_model", "runtimes",
    "sentence_encoders_page", "transformer_lens_calls",
}  # fmt: skip
RUNS = [
    Run("rank", "--shape 2x4x16 --examples 4 --repeats 1", ("rank-x86_64", "rank-h200")),
    Run("rank", "--methods --shape 2x4x16 --examples 4 --repeats 1", ("rank-methods-x86_64",)),
    Run("heads", "--shape 2x4x16 --rounds 1", ("heads-x86_64",)),
    Run("patching", "--shape 2x4x16 --pairs 2 --length 6 --rounds 1", ("patching-h200",)),
    Run("edges", "--family gpt2 --width 48 --pairs 2 --length 6 --rounds 1", ("edges-h200",)),
    Run("finetune", "--shape tiny --examples 256 --updates 2 --rounds 1", ("finetune-x86_64",)),
    Run("tokenise", "--examples 50 --tokenizer {encoder}", ("tokenise-x86_64",)),
    Run("studies", "--trials 3 --many 20", ("studies-x86_64",)),
    Run("translate", "--train 30 --sentences 4 --epochs 1 --rounds 1", ("translate-x86_64",)),
    Run(
        "compression",
        "{encoder} --prunings {half} --rounds 2",
        ("compression-x86_64", "compression-h200"),
        constants={"BATCHES": {"cpu": (1,)}, "LENGTHS": (32,), "TURN": {"cpu": 0.001}},
    ),
    Run("big_decoder", "--shape tiny --device cpu --windows 2 --length 16", ("big-decoder-h200",)),
    Run(
        "attention_layers",
        "--model {decoder} --calibration {text} --text {text} --windows 1 --draws 1",
        ("attention-layers-h200",),
    ),
    Run(
        "shrink_depth",
        "--model {decoder} --train {text} --test {text} --removed 1 --windows 4 --test-windows 1 "
        "--device cpu",
        ("shrink-depth-h200",),
    ),
    Run(
        "shrink_depth",
        "--model {decoder} --generate {layers} --rounds 1 --device cpu",
        ("shrink-depth-generation-x86_64",),
        constants={"PROMPT": 4, "WRITTEN": 2},
    ),
    Run(
        "shrink_lm",
        "--model {decoder} --calibration {text} --text {text} --windows 4 --draws 0 --only both",
        ("shrink-lm-h200",),
    ),
    # large enough that layers take nearly all of the time, on a busy machine too
    Run("shrink_speed", "--shape 2x4x256 --on 8x64 --speedups 1.05", ("shrink-speed-x86_64",)),
    Run(
        "prune_and_quantise",
        "lm --model {decoder} --train {text} --text {text} --folder {work}",
        ("prune-and-quantise-lm-x86_64",),
        constants={
            "SMALLER_LM": {"whole": {}, "less": {"layers": 1}},
            "CALIBRATION": 4,
            "SCORED": 2,
        },
    ),
    Run(
        "shrink_lm_ways",
        "--model {decoder} --train {text} --text {text} --folder {work} --windows 4 --scored 2",
        ("shrink-lm-ways-h200",),
        constants={
            "WAYS": {
                "heads and neurons": {},
                "gradients": {"repair": "gradient"},
                "LoRA": {"trained": 1},
            }
        },
    ),
    Run(
        "lm_protocol",
        "--model {decoder} --calibration {text} --test {text} --questions {questions} --windows 8 "
        "--most 2 --scored 1 --kept 0.8 --draws 0",
        ("lm-protocol-h200",),
        constants={"WINDOW": 64},
    ),
    Run(
        "even",
        "--model {decoder} --task lm --data {texts} --max-length 16 --examples 16",
        ("even-minilm-x86_64", "even-mpnet-x86_64", "even-smollm2-x86_64"),
        constants={"TARGETS": {"half": {"neurons": 0.5}}},
    ),
    Run("rankings", "wanda --work {work}", ("rankings-mini-mbert",), constants={"SEEDS": (0,)}),
    Run("after_training", "{recipe} --task sst2 --examples 32 --only {half} {bottom}"),
    Run(
        "shrink_cost",
        "{sentences} --text {text} --examples 16 --heads 0.5",
        ("shrink-cost-x86_64",),
    ),
    Run(
        "shrink_encoders",
        "--model {encoder} --data world --tasks ner --seeds 0 --examples 200 --train 64 "
        "--only half",
        ("shrink-encoders-all-x86_64", "shrink-encoders-x86_64", "shrink-encoders-all-h200"),
    ),
    Run(
        "sentence_encoders",
        "quality {sentences} --text {text} --similarity {pairs} --retrieval {retrieval} --draws 0 "
        "--only whole {neurons}",
        ("sentence-encoders-h200",),
        since="rows.stages",
    ),
    Run("sentence_encoders", "speed {sentences} {rows} --rounds 2"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A decoder, a sentence encoder, texts, pairs with scores, and a set of retrieval."""
    home = tmp_path_factory.mktemp("inputs")
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, hidden_size=32,
        intermediate_size=32, vocab_size=len(tokenizer), max_position_embeddings=600,
    )  # fmt: skip
    save(LlamaForCausalLM(config), home / "decoder", tokenizer)
    (home / "text.txt").write_text("\n".join(TEXTS * 40) + "\n")
    pairs = [f"{score}\t{one}\t{two}" for score, (one, two) in enumerate(pairwise(TEXTS[:6]))]
    (home / "pairs.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *pairs]) + "\n")
    search = home / "search"
    (search / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", TEXTS), ("queries", TEXTS[:2])):
        rows = [{"_id": str(n), "text": text} for n, text in enumerate(texts)]
        (search / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    qrels = "query-id\tcorpus-id\tscore\n0\t0\t1\n1\t1\t1\n"
    (search / "qrels" / "test.tsv").write_text(qrels)
    left = {f"heads encoder {layer}": 2 for layer in range(2)}
    row = {"model": "encoder", "setting": "half of the heads", "draw": 0, "left": left}
    (home / "rows.json").write_text(json.dumps({"machine": "", "rows": [row]}))
    layers = {"machine": "", "rows": [{"removed": ["decoder.1", "decoder.2"]}]}
    (home / "layers.json").write_text(json.dumps(layers))
    write_questions(home / "questions")
    (home / "recipe.yaml").write_text(RECIPE)
    (home / "texts").mkdir()
    for split in ("train", "test"):
        (home / "texts" / f"{split}.txt").write_text("\n".join(TEXTS * 10) + "\n")
    return {
        "texts": home / "texts", "work": home / "work", "recipe": home / "recipe.yaml",
        "encoder": ENCODER, "decoder": home / "decoder", "text": home / "text.txt",
        "sentences": sentence_encoder(home / "sentences" / "encoder"),
        "pairs": home / "pairs.tsv", "retrieval": search, "rows": home / "rows.json",
        "questions": home / "questions", "layers": home / "layers.json",
    }  # fmt: skip


def write_questions(home):
    row = {
        "query": "A cow gives", "passage": "A cow gives milk.", "question": "does it", "gold": 0,
        "choices": ["milk", "no"], "context": "A cow gives", "continuation": "milk",
    }  # fmt: skip
    for name in importlib.import_module("lm_protocol").FORMATS:
        (home / name).mkdir(parents=True)
        with gzip.open(home / name / "test.jsonl.gz", "wt", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row) + "\n" for _ in range(3))


def keys(value: Any) -> set[str]:
    """The keys of a file of results and, behind a dot, those of all its rows."""
    if "runs" in value:
        value = value["runs"][0]
    names = set(value)
    for name in ("rows", "lines", "times"):
        names |= {f"{name}.{key}" for row in value.get(name, ()) for key in row}
    return names


def test_every_script_runs_somewhere():
    files = [f for f in Path(__file__).parent.glob("*.py") if not f.name.startswith("test_")]
    scripts = {file.stem for file in files if "__main__" in file.read_text(encoding="utf-8")}
    assert scripts == {run.script for run in RUNS} | ELSEWHERE | BY_HAND


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.script} {run.arguments}"[:40])
def test_script(run, inputs, tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))
    phrases = {"half": "random 50", "neurons": "half of the neurons", "bottom": "layers bottom 1"}
    words = [word.format(**phrases, **inputs) for word in run.arguments.split()]
    out = tmp_path / "results.json"
    monkeypatch.setattr(sys, "argv", [f"{run.script}.py", *words, "--json", str(out)])
    script = importlib.import_module(run.script)
    for name, value in run.constants.items():
        monkeypatch.setattr(script, name, value)
    script.main()
    names = keys(json.loads(out.read_text()))
    for name in run.results:
        committed = keys(json.loads((RESULTS / f"{name}.json").read_text()))
        assert names - {run.since} <= committed, (name, names - committed)


def test_the_samples_of_glue_are_drawn_once_and_split_by_question(tmp_path, monkeypatch):
    sentences = [f"{n % 2}\tSentence {n}." for n in range(30)]
    pairs = [f"{n}\tQuestion {n // 2}?\tAnswer {n}.\tentailment" for n in range(20)]
    for name, first, rows in (
        ("sst2", "label\tsentence", sentences),
        ("qnli", "index\tquestion\tsentence\tlabel", pairs),
    ):
        (tmp_path / f"{name}.tsv").write_text("\n".join([first, *rows]) + "\n")
    monkeypatch.setattr(glue_data, "SENTENCES", 10)
    monkeypatch.setattr(glue_data, "SCORED", 6)
    made = []
    for out in (tmp_path / "one", tmp_path / "two"):
        words = ["--sst2", tmp_path / "sst2.tsv", "--qnli", tmp_path / "qnli.tsv", "--out", out]
        monkeypatch.setattr(sys, "argv", ["glue_data.py", *map(str, words)])
        glue_data.main()
        files = ("SST-2/train.tsv", "QNLI/train.tsv", "QNLI/dev.tsv")
        made.append([(out / file).read_text().splitlines()[1:] for file in files])
    assert made[0] == made[1]
    drawn, train, dev = made[0]
    assert (len(drawn), len({*drawn} & {*sentences})) == (10, 10)
    assert sorted(train + dev) == sorted(pairs)
    assert len(dev) == 6
    assert not {row.split("\t")[1] for row in train} & {row.split("\t")[1] for row in dev}
