"""What pages take as given: a model, a tagger, a study. Made when a page first asks."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doc_blocks import ROOT, blocks, run_block

SMALL = ["data.examples=48", "targets=[en, de]", "remove=[none, {lowest: 4}, {random: 50}]"]


def tagger(folder):
    """The small encoder, shortly trained on English parts of speech."""
    if (folder / "tagger").is_dir():
        return folder / "tagger"
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    from deadhead import save
    from deadhead.tasks import encode, first_parts, load_data
    from deadhead.training import Settings, finetune
    from deadhead.world import MODELS

    data, tokenizer = (
        first_parts(load_data("pos", "en", "train", root="world"), 1),
        AutoTokenizer.from_pretrained(MODELS / "encoder"),
    )
    names = dict(enumerate(data.labels))
    model = AutoModelForTokenClassification.from_pretrained(
        MODELS / "encoder",
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    finetune(model, encode(data, tokenizer), Settings(rate=1e-3, epochs=1))
    save(model, folder / "tagger", tokenizer)
    return folder / "tagger"


def study(folder):
    """Three trials of the recipe `smoke`."""
    if (folder / "my-study").is_dir():
        return folder / "my-study"
    from deadhead.studies import load, run

    run(load("smoke", SMALL), folder / "my-study", executor="serial")
    return folder / "my-study"


def big_model(shared, page):
    """A model of 12 x 12 heads, and a batch for it."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from deadhead.world import MODELS

    tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
    size = {
        "hidden_size": 48,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 32,
    }
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **size)).eval()
    texts = {
        "batch": ["Maria bought a red car .", "She likes it ."],
        "clean_batch": "Maria bought a red car .",
        "corrupt_batch": "Maria bought a car red .",
    }
    return {
        "model": model,
        "tokenizer": tokenizer,
        **{
            name: tokenizer(text, return_tensors="pt", padding=True) for name, text in texts.items()
        },
        "batches": [tokenizer("Maria bought a red car .", return_tensors="pt")],
        "heads": ["encoder.3.7", "encoder.4.0"],
    }


def with_tagger(shared, page):
    """A tagger in the folder, and as `model` with `batches` of its task."""
    from transformers import AutoTokenizer

    from deadhead import load
    from deadhead.tasks import batches, encode, first_parts, load_data

    (page / "tagger").symlink_to(tagger(shared))
    model, tokenizer = load(shared / "tagger"), AutoTokenizer.from_pretrained(shared / "tagger")
    data = first_parts(load_data("pos", "en", "dev", root="world"), 1)
    return {"model": model, "tokenizer": tokenizer, "batches": batches(encode(data, tokenizer))}


def with_my_tagger(shared, page):
    """A tagger under another name than the page gives to its own."""
    (page / "my-tagger").symlink_to(tagger(shared))
    return {}


def with_first_blocks(name, count):
    """What the first blocks of Python of another page define."""

    def run(shared, page):
        names = {"__name__": "page"}
        python = [b for b in blocks(ROOT / "docs" / name) if b.tag == "python"]
        for block in python[:count]:
            run_block(block, names, page)
        return names

    return run


def with_encoder(shared, page):
    """A sentence encoder, texts for it, pairs of them with a score, and a folder to search."""
    import json
    from itertools import pairwise

    from transformers import AutoModel

    from deadhead import save
    from deadhead.tasks import load_data
    from deadhead.world import MODELS
    from tiny_sentence_encoders import sentence_encoder

    rows = load_data("pos", "en", "train", root="world").rows[:200]
    texts = [" ".join(row.texts) for row in rows]
    bare = save(
        AutoModel.from_pretrained(MODELS / "encoder"),
        shared / "bare",
        **with_tokenizer(shared, page),
    )
    sentence_encoder(page / "my-encoder", bare=bare)
    (page / "texts.txt").write_text("\n".join(texts))
    pairs = [f"{a}\t{b}\t{len({*a.split()} & {*b.split()}) % 6}" for a, b in pairwise(texts[:31])]
    (page / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]))
    (page / "search" / "qrels").mkdir(parents=True)
    for name, part in (("corpus", texts[:40]), ("queries", texts[40:48])):
        lines = (json.dumps({"_id": str(n), "title": "", "text": t}) for n, t in enumerate(part))
        (page / "search" / f"{name}.jsonl").write_text("\n".join(lines))
    judged = "\n".join(f"{n}\t{n}\t1" for n in range(8))
    (page / "search" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return {}


def with_studies(*names):
    def link(shared, page):
        for name in names:
            (page / name).symlink_to(study(shared))
        return {}

    return link


def with_records(*names):
    """Studies whose records are beside the page."""

    def unpack(shared, page):
        for name in names:
            with tarfile.open(ROOT / "docs" / "results" / f"{name}.tar.xz") as packed:
                packed.extractall(page, filter="data")
        return {}

    return unpack


def with_tokenizer(shared, page):
    from transformers import AutoTokenizer

    from deadhead.world import MODELS

    return {"tokenizer": AutoTokenizer.from_pretrained(MODELS / "encoder")}


def inside_the_package(shared, page):
    """Files that the page puts into src/deadhead/ROOM are found there."""
    import deadhead.cli
    import deadhead.measures
    import deadhead.papers.catalogue
    import deadhead.rankers
    import deadhead.report.figures
    import deadhead.report.tables
    import deadhead.shrinking.repairs
    import deadhead.strategies
    import deadhead.studies.steps

    rooms = (
        deadhead.cli,
        deadhead.measures,
        deadhead.papers,
        deadhead.rankers,
        deadhead.report.figures,
        deadhead.report.tables,
        deadhead.shrinking,
        deadhead.shrinking.repairs,
        deadhead.strategies,
        deadhead.studies.steps,
    )
    for room in rooms:
        room.__path__.append(str(page / "src" / room.__name__.replace(".", "/")))
    return {}


# Trainings that take minutes are run shorter, and trials in this process:
# page -> what stands there, and what is run.
SHORTER = {
    "guides/embeddings.md": {"--keep-macs 50%": "--keep-macs 50% --on 4x16"},
    "guides/practitioner.md": {
        "--remove-heads 75% --examples 400": "--remove-heads 75% --examples 60 --on 2x16",
        '"train", root="world", parts=1), tokenizer))': '"dev", root="world", '
        "parts=5), tokenizer))",
        "--split test --data world": "--split test --data world --max-examples 50",
    },
    "guides/researcher.md": {"root: world, examples: 64": "root: world, examples: 16"},
    "studies.md": {
        "workers=1)": 'executor="serial")',
        'search.lowest=1..2"': 'search.lowest=1..1", "finetune.scored=none"',
        "data.examples=64": "data.examples=16 --set finetune.scored=none",
        "root: world, examples: 64": "root: world, examples: 16",
        "root: world, examples: 32": "root: world, examples: 16",
    },
    "translation.md": {
        "epochs=12, average=3": "epochs=1",
        'split, root="world")': 'split, root="world", parts=1)',
    },
}

GIVEN: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "extend.md": inside_the_package,
    "guides/find-a-circuit.md": with_first_blocks("guides/ablate-and-patch.md", 2),
    "guides/embeddings.md": with_encoder,
    "guides/practitioner.md": with_my_tagger,
    "heads.md": big_model,
    "ranking.md": with_tagger,
    "tasks.md": with_tokenizer,
    "results/appendix/contributions.py": with_records(
        "pos-search",
        "pos-search-more",
        "pos-search-seeds",
        "slots-search",
        "ner-search",
        "pos-multilingual",
        "pos-sources",
        "pos-low-resource",
    ),
    "results/appendix/prunability.py": with_records(
        "pos-prunability", "nli", "nli-rates", "nli-layers", "sst2", "sst2-slow"
    ),
    "results/appendix/rankers.py": with_records("rankers", "rankers-cut"),
    "results/appendix/weak-link.py": with_records(
        "sst2", "sst2-slow", "sst2-rates", "sst2-layers", "pos-prunability", "multi30k"
    ),
    "claims.md": with_studies("table4", "table5", "table6", "my-study"),
}
