"""Attacks by input: mutated files. Each is read, or refused with one clear error, in time."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attack import Count
from deadhead.errors import DeadheadError
from deadhead.layout import HeadLayout
from deadhead.ranking import Ranking
from deadhead.studies import built_in, load
from deadhead.tasks import load_data
from deadhead.tasks.task_file import read_task_file

SECONDS = 20  # that one input may take
TASK = (
    "kind: classify\nname: mine\ntexts: [sentence]\nlabel: label\nlabels: [a, b]\n"
    "languages: [en, de]\nfiles: {train: '{lang}-train.tsv', dev: '{lang}-dev.tsv', test: "
    "'{lang}-test.tsv'}\nformat: tsv-header\n"
)
TSV = "sentence\tlabel\n" + "".join(f"this is row {i}\t{'ab'[i % 2]}\n" for i in range(20))
CONLLU = "".join(
    f"# sent_id = {i}\n1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    for i in range(10)
)
SPLITS = ("train", "dev", "test")
MANIFEST = {
    "tasks": {"pos": {"en": {split: f"ud/en-{split}.conllu" for split in SPLITS}}},
    "files": {
        f"ud/en-{split}.conllu": {
            "format": "conllu",
            "task": "pos",
            "language": "en",
            "split": split,
        }
        for split in SPLITS
    },
}
PIECES = (
    "",
    "\0",
    "-1",
    "9" * 400,
    "1e999",
    "NaN",
    "null",
    "[",
    "{",
    "&a",
    "*a",
    "!!python/object",
    "../../etc/passwd",
    "\ud7ff",
    "\t",
    "\n",
    ": ",
    "- ",
    "'",
    "\u202e",
    "true",
    "[[[[[[",
    "0x",
    "~",
    "<<",
)


def mutated(text: str, rng: random.Random) -> str:
    """A text with some of it dropped, doubled, swapped or replaced."""
    for _ in range(rng.randint(1, 4)):
        lines = text.split("\n")
        at, start = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 12))
        way = rng.randrange(6)
        if way == 0:
            text = text[:start] + rng.choice(PIECES) + text[end:]
        elif way == 1:
            text = text[:start] + text[end:]
        elif way == 2:
            lines.insert(rng.randrange(len(lines)), lines[at])
            text = "\n".join(lines)
        elif way == 3:
            del lines[at]
            text = "\n".join(lines)
        elif way == 4:
            text = (
                text[:start]
                + chr(rng.choice((rng.randrange(1, 128), rng.randrange(128, 0xD000))))
                + text[start + 1 :]
            )
        else:
            text = text[:start]
    return text


@contextmanager
def in_time(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(count: Count) -> None:
    """The kinds of input in turn."""
    rng, kinds = random.Random(0), list(_kinds(count.folder).items())
    while count.more():
        name, (file, text, read) = kinds[count.tries % len(kinds)]
        mutant = mutated(text, rng)
        file.write_text(mutant, encoding="utf-8", errors="surrogatepass")
        try:
            with in_time(SECONDS):
                read()
        except DeadheadError:
            count.put()
        except Exception as problem:
            count.put(f"{name}: {problem!r:.150} from {mutant[:60]!r}")
        else:
            count.put()
        file.write_text(text, encoding="utf-8")


def _kinds(folder: Path) -> dict[str, tuple[Path, str, Callable[[], Any]]]:
    """Name -> the file that is mutated, its text, and how it is read."""
    import transformers

    from deadhead.heads import load as load_model

    recipes = [
        file.read_text(encoding="utf-8")
        for name, file in built_in().items()
        if name in ("smoke", "demo")
    ]
    data, table = folder / "data", folder / "table"
    (data / "ud").mkdir(parents=True)
    table.mkdir()
    for split in SPLITS:
        (data / "ud" / f"en-{split}.conllu").write_text(CONLLU)
    manifest = json.dumps(MANIFEST, indent=1)
    (data / "manifest.json").write_text(manifest)
    for split in SPLITS:
        (table / f"en-{split}.tsv").write_text(TSV)
    (table / "mine.yaml").write_text(TASK)
    layout = HeadLayout.grid(encoder=(2, 4))
    heads = [head for attention in layout.of("encoder") for head in attention.heads]
    ranking = Ranking(
        scores={head: 0.1 * i for i, head in enumerate(heads)}, layout=layout, method="gradient"
    ).save(folder / "ranking.json")
    sizes = {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 16,
        "vocab_size": 32,
    }
    transformers.BertModel(
        transformers.BertConfig(**sizes, max_position_embeddings=16)
    ).save_pretrained(folder / "model")
    config = folder / "model" / "config.json"
    transformers.logging.set_verbosity_error()
    for name, read in (
        ("data", lambda: load_data("pos", "en", "train", root=data)),
        ("model", lambda: load_model(folder / "model")),
    ):
        assert read() is not None, name  # as they are they can be read
    mine = table / "mine.yaml"
    assert len(load_data(str(mine), "en", "train", root=table))
    return {
        "recipe": (folder / "r.yaml", recipes[0], lambda: load(folder / "r.yaml").cells),
        "longer recipe": (folder / "q.yaml", recipes[-1], lambda: load(folder / "q.yaml").cells),
        "task file": (mine, TASK, lambda: read_task_file(mine)),
        "manifest": (
            data / "manifest.json",
            manifest,
            lambda: load_data("pos", "en", "train", root=data),
        ),
        "data file": (
            data / "ud" / "en-train.conllu",
            CONLLU,
            lambda: load_data("pos", "en", "train", root=data),
        ),
        "table": (
            table / "en-train.tsv",
            TSV,
            lambda: load_data(str(mine), "en", "train", root=table),
        ),
        "ranking": (
            ranking,
            ranking.read_text(encoding="utf-8"),
            lambda: Ranking.load(ranking).lowest(2),
        ),
        "config": (
            config,
            config.read_text(encoding="utf-8"),
            lambda: load_model(folder / "model"),
        ),
    }
