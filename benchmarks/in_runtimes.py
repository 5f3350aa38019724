"""Models in other runtimes, side by side: speed, memory, size, and whether they answer the same.

    python benchmarks/in_runtimes.py MODEL [MODEL ...]
                                     --runtimes transformers,onnx:int8,llama.cpp:q8_0
                                     [--prompts FILE] [--new-tokens 32] [--repeats 5]

Each model runs in each runtime in a process of its own, on the CPU, with the same prompts and
threads. All of them take turns in one run, so that a busy machine slows all. Speeds are medians
over the rounds, and the ratio of two models is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple

import runtime_worker
import torch

from deadhead.display.progress import stage
from deadhead.errors import DataError, DeadheadError, MissingExtra, UnsupportedModel, unknown_name
from deadhead.exports.gguf import runtime as llama_cpp
from deadhead.exports.gguf import worker as llama_cpp_worker
from deadhead.exports.gguf.file import TYPES as GGUF_TYPES
from deadhead.heads.load import load, skeleton
from deadhead.heads.model_class import AS_SAVED
from deadhead.heads.model_files import tokenizer_of
from deadhead.saved.bench import disk_bytes

# how the file of a runtime can store matrices; onnx and onnx-genai without a type store float32
TYPES = {
    "transformers": (),
    "onnx": ("int8",),
    "onnx-genai": ("int8",),
    "llama.cpp": tuple(GGUF_TYPES),
}
WARM_UP = 1  # rounds
PARTS = ("prompt", "new")  # tokens that are read, and tokens that are generated


class Runtime(NamedTuple):
    """A runtime, and how its file stores matrices."""

    name: str
    type: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} {self.type}".strip()

    @classmethod
    def of(cls, text: str) -> Runtime:
        """The runtime of a text such as onnx or llama.cpp:q8_0."""
        name, _, type = text.strip().partition(":")
        if name not in TYPES:
            raise unknown_name("runtime", name, TYPES)
        if not type:
            return cls(name, "f16" if name == "llama.cpp" else "")
        if type not in TYPES[name]:
            known = ", ".join([name, *(f"{name}:{other}" for other in TYPES[name])])
            raise DeadheadError(f"no runtime {text.strip()!r}.", f"use {known}")
        return cls(name, type)


class _Model(NamedTuple):
    """What the comparison needs to know about a saved model."""

    name: str
    generates: bool
    words: int  # in the vocabulary
    longest: int | None  # text, in tokens
    banned: list[int]  # tokens that end a text


def compare_runtimes(
    models: Sequence[str | Path],
    runtimes: Sequence[str],
    *,
    prompts: Sequence[str] | None = None,
    lengths: Sequence[int] = (32, 128),
    new_tokens: int = 32,
    repeats: int = 5,
    tokenizer_from: str | Path | None = None,
    auto: str | None = None,
    dtype: str = AS_SAVED,
) -> dict[str, Any]:
    """Measure saved models in runtimes; ratios compare each model with the last of them.

    A model that generates text continues each prompt by `new_tokens` tokens. Any other reads it.

    Args:
        runtimes: "transformers", "onnx", "onnx-genai" and "llama.cpp", with or without a type:
            "llama.cpp:q8_0".
        prompts: texts, for the tokenizer of the first model. Else random tokens of `lengths`.
        tokenizer_from: a GGUF file whose tokenizer the files for llama.cpp get, see `export`.
        auto, dtype: how to load the models (names, see `load`).
    """
    kinds = list(dict.fromkeys(Runtime.of(text) for text in runtimes))
    for model in models:
        skeleton(model, auto=auto, dtype=dtype)  # or raise an error before any weights are read
    known = [_described(str(name), auto, dtype) for name in models]
    if len({model.generates for model in known}) > 1:
        raise UnsupportedModel("expected models that all generate text, or none of them.")
    new = new_tokens if known[0].generates else 0
    requests = _requests(known, prompts, lengths, new)
    setup = {
        "threads": torch.get_num_threads(),
        "context": max(512, *(len(request["prompt"]) + new + 8 for request in requests)),
        "auto": auto,
        "dtype": dtype,
    }
    with ExitStack() as stack, tempfile.TemporaryDirectory() as place:
        runs = [_Run(kind, model.name) for kind in kinds for model in known]
        files = _Files(Path(place), tokenizer_from, auto, dtype)
        for run in runs:
            stage(f"preparing {run.label}")
            run.prepare(files)
        for run in runs:
            run.start(stack, setup)
        for turn in range(repeats + WARM_UP):
            stage(f"round {turn + 1} of {repeats + WARM_UP}")
            for run in runs:
                run.answer(requests, keep=turn >= WARM_UP)
    if all(run.problem for run in runs):
        raise DeadheadError(f"no runtime can run this model. {runs[0].label}: {runs[0].problem}")
    return {
        "models": [model.name for model in known],
        "machine": f"{platform.machine()} CPU",
        "threads": setup["threads"],
        "prompt_tokens": [len(request["prompt"]) for request in requests],
        "new_tokens": new,
        "rounds": repeats,
        "rows": [run.row(runs, known[-1].name) for run in runs],
    }


def _described(name: str, auto: str | None, dtype: str) -> _Model:
    model = load(name, auto=auto, dtype=dtype)
    if model.config.is_encoder_decoder or "input_ids" not in model.main_input_name:
        raise UnsupportedModel(
            f"expected an encoder or a decoder that reads text, got {type(model).__name__}.",
            "deadhead bench compares other models in transformers",
        )
    generates = model.can_generate()
    ends = model.generation_config.eos_token_id if generates else None
    return _Model(
        name,
        generates,
        int(model.get_input_embeddings().weight.shape[0]),
        getattr(model.config, "max_position_embeddings", None),
        [] if ends is None else [ends] if isinstance(ends, int) else list(ends),
    )


def _requests(
    models: Sequence[_Model], prompts: Sequence[str] | None, lengths: Sequence[int], new: int
) -> list[dict[str, Any]]:
    """What each runtime is to answer: the tokens of each prompt, and how many to add."""
    if prompts is None:
        generator, words = torch.Generator().manual_seed(0), min(model.words for model in models)
        rows = [torch.randint(3, words, (n,), generator=generator).tolist() for n in lengths]
    else:
        tokenizer = tokenizer_of(models[0].name)
        if tokenizer is None:
            raise DataError(
                f"{models[0].name} has no tokenizer, so that it cannot read prompts.",
                "leave out --prompts, to use random tokens",
            )
        rows = [list(tokenizer(text)["input_ids"]) for text in prompts]
        if not rows or not all(rows):
            raise DataError(
                "expected prompts of at least one token, got "
                + ("an empty one." if rows else "none."),
                "write a prompt on each line of the file of --prompts",
            )
    longest = min((model.longest for model in models if model.longest), default=None)
    needed = max(map(len, rows)) + new
    if longest is not None and needed > longest:
        raise DeadheadError(
            f"the longest prompt and its new tokens expect at most {longest} positions, "
            f"got {needed}.",
            "use a smaller --length or --new-tokens",
        )
    return [{"prompt": row, "new": new, "banned": models[0].banned} for row in rows]


class _Files:
    """Writes models in the formats of other runtimes; runtimes of one format share its files."""

    def __init__(
        self, place: Path, tokenizer_from: str | Path | None, auto: str | None, dtype: str
    ):
        self.place, self.tokenizer_from = place, tokenizer_from
        self.auto, self.dtype = auto, dtype
        self.graphs: dict[tuple[str, str], Any] = {}  # model, type -> what was exported

    def onnx(self, model: str, runtime: Runtime) -> Any:
        from deadhead.exports.onnx import genai
        from deadhead.exports.onnx.export import exported

        if runtime.name == "onnx-genai" and find_spec("onnxruntime_genai") is None:
            raise MissingExtra("onnxruntime-genai", "genai", "onnx-genai")
        key = (model, runtime.type)
        if key not in self.graphs:
            place, int8 = self.place / f"onnx-{len(self.graphs)}", runtime.type == "int8"
            self.graphs[key] = exported(model, onnx=place, int8=int8, auto=self.auto)
        graphs = self.graphs[key]
        if runtime.name == "onnx-genai" and not (graphs.place / genai.FILE).exists():
            raise UnsupportedModel("onnxruntime-genai is for models that generate text.")
        return graphs

    def gguf(self, model: str, runtime: Runtime) -> Any:
        from deadhead.exports.gguf.export import exported

        if not llama_cpp.is_installed():
            raise MissingExtra("xllamacpp", "gguf", "llama.cpp")
        return exported(
            model,
            gguf=Path(tempfile.mkdtemp(dir=self.place)) / "model.gguf",
            type=runtime.type,
            tokenizer_from=self.tokenizer_from,
            auto=self.auto,
            dtype=self.dtype,
        )


class _Run:
    """A model in a runtime: its file, its process and its answers, or the reason of a failure."""

    def __init__(self, runtime: Runtime, model: str):
        self.runtime, self.model = runtime, model
        self.label = runtime.label
        self.file, self.bytes = Path(model), disk_bytes(model)
        self.gap: float | None = None  # the largest difference, as a share of the largest value
        self.problem: str | None = None
        self.worker: subprocess.Popen[str] | None = None
        self.errors: IO[str]  # what its process prints
        self.rounds: list[list[dict[str, Any]]] = []

    def prepare(self, files: _Files) -> None:
        """Write the file of the runtime, which is compared with the model."""
        try:
            if self.runtime.name.startswith("onnx"):
                graphs = files.onnx(self.model, self.runtime)
                self.file, self.bytes = graphs.place / "model.onnx", graphs.size
                self.gap = graphs.gap if graphs.int8_gap is None else graphs.int8_gap
            elif self.runtime.name == "llama.cpp":
                result = files.gguf(self.model, self.runtime)
                self.file, self.bytes = result.file, result.file.stat().st_size
                self.gap = None if result.comparison is None else result.comparison.share
        except DeadheadError as problem:
            self.problem = _text(problem)

    def start(self, stack: ExitStack, setup: dict[str, Any]) -> None:
        if self.problem:
            return
        description = {
            **setup,
            "runtime": self.runtime.name,
            "file": str(self.file),
            "llama_cpp": llama_cpp_worker.__file__,
        }
        self.worker, self.errors = stack.enter_context(_process(description))
        self._read()

    def answer(self, requests: Sequence[dict[str, Any]], *, keep: bool) -> None:
        """Let the runtime answer every prompt once."""
        answers = []
        for request in requests:
            if self.problem or self.worker is None or self.worker.stdin is None:
                return
            try:
                self.worker.stdin.write(json.dumps(request) + "\n")
                self.worker.stdin.flush()
            except BrokenPipeError:
                pass  # its process has ended, and `_read` finds out why
            answers.append({"count": len(request["prompt"]), **self._read()})
        if keep and not self.problem:
            self.rounds.append(answers)

    def _read(self) -> dict[str, Any]:
        stream = None if self.worker is None else self.worker.stdout
        if stream is not None and (line := stream.readline()):
            return dict(json.loads(line))
        self.errors.seek(0)
        lines = self.errors.read().splitlines() or ["it gave no reason"]
        reasons = [text for text in lines if "rror" in text or "ASSERT" in text]
        self.problem = f"it stopped: {(reasons or lines)[-1].strip()[:300]}"
        return {}

    def speeds(self, part: str) -> list[float]:
        """Tokens per second in each round, of the prompts or of the new tokens."""
        speeds = []
        for answers in self.rounds:
            # the first new token belongs to the prompt
            counts = [a["count"] if part == "prompt" else len(a["tokens"]) - 1 for a in answers]
            seconds = sum(a[f"{part}_seconds"] for a in answers)
            if sum(counts) > 0:
                speeds.append(sum(counts) / seconds)
        return speeds

    def row(self, runs: Sequence[_Run], against: str) -> dict[str, Any]:
        """What is reported; the same tokens are those of transformers with the same model."""
        if self.problem:
            return {"runtime": self.label, "model": self.model, "problem": self.problem}
        same_runtime = [run for run in runs if run.runtime == self.runtime and not run.problem]
        base = next((run for run in same_runtime if run.model == against), None)
        twins = [run for run in runs if run.model == self.model and run.rounds]
        reference = next((run for run in twins if run.runtime.name == "transformers"), None)
        last = self.rounds[-1]
        same = None
        if reference is not None and reference is not self and last[0]["tokens"]:
            pairs = zip(last, reference.rounds[-1], strict=True)
            same = sum(mine["tokens"] == other["tokens"] for mine, other in pairs)
        return {
            "runtime": self.label,
            "model": self.model,
            "file_bytes": self.bytes,
            "peak_memory_bytes": last[-1]["peak_bytes"],
            **{f"{part}_tokens_per_second": _median(self.speeds(part)) for part in PARTS},
            "ratios": {part: _ratio(self, base, part) for part in PARTS},
            "same_tokens": same,
            "largest_difference": self.gap,
            "problem": None,
        }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ratio(run: _Run, base: _Run | None, part: str) -> float | None:
    """How many times as fast a model is as another one in the same runtime."""
    if base is None or base is run:
        return None
    pairs = zip(run.speeds(part), base.speeds(part), strict=True)
    return _median([mine / other for mine, other in pairs])


def _text(problem: DeadheadError) -> str:
    return problem.message if problem.hint is None else f"{problem.message} {problem.hint}"


@contextmanager
def _process(description: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process that runs a model, and what it prints; it ends with the block."""
    # -P: the modules beside the script are not for import by their short names
    command = [sys.executable, "-P", runtime_worker.__file__, json.dumps(description)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        tempfile.TemporaryFile("w+", errors="replace") as printed,
        subprocess.Popen(command, stderr=printed, **pipes) as process,
    ):
        try:
            yield process, printed
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--runtimes", default="transformers,onnx", metavar="NAMES")
    parser.add_argument("--prompts", type=Path, help="a file with a prompt on each line")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    prompts = options.prompts and options.prompts.read_text(encoding="utf-8").splitlines()
    how = {"new_tokens": options.new_tokens, "repeats": options.repeats, "prompts": prompts}
    result = compare_runtimes(options.models, options.runtimes.split(","), **how)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
