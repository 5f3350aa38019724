"""Attacks by a model's folder that anybody may have written, and by kills while one is written."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from attack import Count
from deadhead.errors import DeadheadError
from deadhead.files.export_folder import put_export
from deadhead.files.model_folder import finish_save
from deadhead.heads import load, save
from deadhead.heads.load import skeleton
from deadhead.saved.prune import prune_saved
from deadhead.training.models import tokenizer_for
from deadhead.world import MODELS

SECONDS, BYTES = 60, 6 << 30  # that one folder may take
SECRET = b"a key that no copy may have"
INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
NESTED = ("[" * 100_000, '{"a":' * 100_000)

Damage = Callable[[Path], Any]


def folders(count: Count) -> None:
    """Each damage, before each reader, in its own process: the folder is read or refused."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    (count.folder / "outside").mkdir()
    (count.folder / "outside" / "key").write_bytes(SECRET)
    ways, readers = [*damages().items()], [*_readers(count.folder / "out").items()]
    for _, read in readers:  # as it is it can be read
        assert _alone(partial(read, str(MODELS / "encoder"))) == ""
    shutil.rmtree(count.folder / "out", ignore_errors=True)
    while count.more():
        number, which = divmod(count.tries, len(readers))
        (what, damage), (name, read) = ways[number % len(ways)], readers[which]
        folder = count.folder / "model"
        shutil.copytree(MODELS / "encoder", folder)
        damage(folder)
        problem = _alone(partial(read, str(folder)))
        copies = [file for file in (count.folder / "out").rglob("*") if file.is_file()]
        if any(SECRET in file.read_bytes() for file in copies):
            problem = "the copy has a file from outside of the folder"
        count.put(f"{name} of {what}: {problem}" if problem else "")
        for used in (folder, count.folder / "out"):
            shutil.rmtree(used, ignore_errors=True)


def _readers(out: Path) -> dict[str, Callable[[str], Any]]:
    def first(layout: Any) -> list[Any]:
        return [next(iter(layout))]

    return {
        "load": load,
        "skeleton": skeleton,
        "tokenizer": tokenizer_for,
        "prune": lambda name: prune_saved(name, out, first),
    }


def _alone(work: Callable[[], Any]) -> str:
    """What goes wrong, in a process with little memory and time; nothing for a DeadheadError."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        problem, before = "", vars(transformers.BertConfig).copy()
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with suppress(DeadheadError):
                work()
            if vars(transformers.BertConfig) != before:
                problem = "a class of transformers was changed"
        except BaseException as error:
            problem = repr(error)[:150]
        os.write(write_end, problem.encode())
        os._exit(0)
    os.close(write_end)
    end, status = time.monotonic() + SECONDS, None
    while status is None and time.monotonic() < end:
        done, code = os.waitpid(child, os.WNOHANG)
        status = code if done else None
        time.sleep(0.01)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with os.fdopen(read_end, "rb") as pipe:
        problem = pipe.read().decode()
    if status is None:
        return f"took longer than {SECONDS} s"
    return problem or (f"the process ended with {status}" if status else "")


def _config(**fields: Any) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))

    return damage


def _text(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text)


def _pipe(name: str) -> Damage:
    return lambda folder: ((folder / name).unlink(missing_ok=True), os.mkfifo(folder / name))


def _link(name: str, target: str) -> Damage:
    return lambda folder: (
        (folder / name).unlink(missing_ok=True),
        (folder / name).symlink_to(target),
    )


def _header(text: str) -> Damage:
    data = len(text).to_bytes(8, "little") + text.encode()
    return lambda folder: (folder / WEIGHTS).write_bytes(data)


def _token(number: int) -> Damage:
    def damage(folder: Path) -> None:
        stored = json.loads((folder / "tokenizer.json").read_text())
        words = stored["model"]["vocab"]
        words[max(words, key=words.__getitem__)] = number
        (folder / "tokenizer.json").write_text(json.dumps(stored))

    return damage


def _pickle(folder: Path) -> None:
    (folder / "w.bin").write_bytes(b"no pickle may be read")
    shard = {"metadata": {}, "weight_map": {"bert.embeddings.word_embeddings.weight": "w.bin"}}
    (folder / INDEX).write_text(json.dumps(shard))


def damages() -> dict[str, Damage]:
    heads = {"format": 2, "removed": {"encoder": {"0": [*range(3_000_000)]}}}
    ranges = {"encoder": {str(n): ",".join(["0-900000"] * 100) for n in range(10)}}
    unpruned = {"format": 2, "removed": {}, "unpruned": {"__class__.head_dim": 5}}
    by_name: dict[str, Damage] = {
        "a hundred million labels": _config(num_labels=100_000_000),
        "a million layers": _config(num_hidden_layers=1_000_000),
        "a million experts": _config(text_config={"num_experts": 1_000_000}),
        "two hundred million words": _config(vocab_size=200_000_000),
        "a hundred billion positions": _config(max_position_embeddings=10**11),
        "a number of 30 digits": _config(hidden_size=10**30),
        "three million removed heads": _config(deadhead=heads),
        "long ranges": _config(deadhead={"format": 2, "removed": {}, "removed_neurons": ranges}),
        "a size of a class": _config(deadhead=unpruned),
        "an attention from elsewhere": _config(_attn_implementation="a/b"),
        "attentions from elsewhere": _config(attn_implementation={"": "a/b"}),
        "a quantised model": _config(quantization_config={"quant_method": "gptq", "bits": 4}),
        "an index that names a pickle": _pickle,
        "a config of 40 MB": _config(note="a" * 40_000_000),
        "a key behind links": lambda folder: (
            (folder / "notes").symlink_to("../outside/key"),
            (folder / "more").symlink_to("../outside"),
            (folder / "sub").mkdir(),
            (folder / "sub" / "key").symlink_to("../../outside/key"),
        ),
        "weights cut short": lambda folder: os.truncate(folder / WEIGHTS, 100_000),
    }
    for name in ("config.json", "tokenizer.json", WEIGHTS, INDEX, "LICENSE"):
        by_name[f"a pipe {name}"] = _pipe(name)
        by_name[f"an endless {name}"] = _link(name, "/dev/zero")
    for name in ("config.json", INDEX, *TOKENIZERS):
        by_name |= {f"nested {name} {text[0]}": _text(name, text) for text in NESTED}
    by_name |= {f"a nested header {text[0]}": _header(text) for text in NESTED}
    by_name |= {f"the token {number}": _token(number) for number in (10**9, 2**31, 2**32 - 1)}
    for text in ("[", "{a: ", "- "):
        by_name[f"a card of {text!r}"] = _text("README.md", f"---\n{text * 20_000}\n---\nMine.\n")
    return by_name


def killed_writers(count: Count) -> None:
    """Kill the writer of an export or a model: one version is whole, the user's file kept."""
    rng = random.Random(0)
    transformers.logging.set_verbosity_error()
    model, folder = load(MODELS / "encoder"), count.folder / "out"

    def export() -> None:
        put_export(folder, lambda draft: [(draft / f"{n}.onnx").write_text("x" * 9) for n in "abc"])

    def both() -> None:
        while True:
            export() if count.tries % 2 else save(model, folder)

    while count.more():
        (export if count.tries % 2 else lambda: save(model, folder))()
        (folder / ".notes").write_bytes(SECRET)
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                both()
            os._exit(0)
        time.sleep(rng.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        count.put(_whole(folder, export if count.tries % 2 else lambda: load(folder)))
        shutil.rmtree(folder)


def _whole(folder: Path, again: Callable[[], Any]) -> str:
    try:
        finish_save(folder)
        if not [file for file in folder.iterdir() if file.name[0] != "."]:
            return "nothing is there"
        again()
        if (folder / ".notes").read_bytes() != SECRET:
            return "the user's file was changed"
    except Exception as problem:
        return repr(problem)[:150]
    return ""
