"""Run a model in a runtime, in a process of its own, so that its memory is measured alone.

`runtimes` starts it with a description of the model as JSON. It reads requests, a line of JSON each
(`prompt`: tokens, `new`: how many to generate, `banned`: tokens that end a text), and answers each
with a line: the seconds of the prompt up to the first new token, the seconds of the other new
tokens, the new tokens, and the peak memory. It imports a runtime and no other, and nothing of
deadhead where that would load torch.
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a runtime answers to a prompt, and how long it takes."""

    prompt_seconds: float
    new_seconds: float
    tokens: list[int]


class Transformers:
    """The model as deadhead loads it; a streamer reports when the first new token comes."""

    def __init__(self, setup: dict[str, Any]):
        import torch

        from deadhead.heads.load import load

        torch.set_num_threads(setup["threads"])
        self.torch = torch
        self.model = load(setup["file"], auto=setup["auto"], dtype=setup["dtype"]).eval()

    def run(self, prompt: list[int], new: int, banned: list[int]) -> Answer:
        from transformers import GenerationConfig

        ids = self.torch.tensor([prompt])
        start = time.perf_counter()
        if not new:
            with self.torch.no_grad():
                self.model(input_ids=ids, attention_mask=self.torch.ones_like(ids))
            return Answer(time.perf_counter() - start, 0.0, [])
        # the model's own would end a text early; values left out here would be taken from it
        self.model.generation_config = GenerationConfig(
            max_new_tokens=new, do_sample=False, suppress_tokens=banned or None, pad_token_id=0
        )
        clock = _Clock()
        text = self.model.generate(ids, attention_mask=self.torch.ones_like(ids), streamer=clock)
        first, end = clock.times[1], time.perf_counter()
        return Answer(first - start, end - first, text[0, len(prompt) :].tolist())


class _Clock:
    """A streamer of transformers: it gets the prompt, then each new token."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, _: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None: ...


class Onnx:
    """ONNX Runtime; with the key/value cache of a graph that has one."""

    def __init__(self, setup: dict[str, Any]):
        import numpy
        import onnxruntime

        self.numpy = numpy
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setup["threads"]
        self.session = onnxruntime.InferenceSession(
            setup["file"], options, providers=["CPUExecutionProvider"]
        )
        self.inputs = self.session.get_inputs()
        self.outputs = [entry.name for entry in self.session.get_outputs()]

    def run(self, prompt: list[int], new: int, banned: list[int]) -> Answer:
        start = time.perf_counter()
        tokens: list[int] = []
        times = [start]
        cache = self._empty_cache()
        for _ in range(max(1, new)):
            has_read = bool(cache) and bool(tokens)
            unread = tokens[-1:] if has_read else [*prompt, *tokens]
            outputs = self._forward(unread, len(prompt) + len(tokens), cache)
            if new:
                scores = outputs["logits"][0, -1]
                scores[banned] = -self.numpy.inf
                tokens.append(int(scores.argmax()))
            for name in cache:
                cache[name] = outputs[name.replace("past_key_values", "present")]
            times.append(time.perf_counter())
        return Answer(times[1] - start, times[-1] - times[1], tokens)

    def _empty_cache(self) -> dict[str, Any]:
        """For each input of the cache a tensor of no positions; its third axis is the length."""
        return {
            entry.name: self.numpy.zeros(
                (1, entry.shape[1], 0, entry.shape[3]),
                self.numpy.float16 if "float16" in entry.type else self.numpy.float32,
            )
            for entry in self.inputs
            if entry.name.startswith("past_key_values")
        }

    def _forward(self, unread: list[int], length: int, cache: dict[str, Any]) -> dict[str, Any]:
        """Read tokens, the last of a text of this length."""
        ids = self.numpy.array([unread], dtype=self.numpy.int64)
        positions = self.numpy.arange(length - len(unread), length, dtype=self.numpy.int64)[None]
        values = {
            "input_ids": ids,
            "attention_mask": self.numpy.ones((1, length), dtype=self.numpy.int64),
            "token_type_ids": self.numpy.zeros_like(ids),
            "position_ids": positions,
            **cache,
        }
        feed = {entry.name: values[entry.name] for entry in self.inputs}
        return dict(zip(self.outputs, self.session.run(self.outputs, feed), strict=True))


class OnnxGenai:
    """onnxruntime-genai, which has the loop over new tokens built in."""

    def __init__(self, setup: dict[str, Any]):
        import onnxruntime_genai

        self.genai = onnxruntime_genai
        config = onnxruntime_genai.Config(str(Path(setup["file"]).parent))
        options = {"intra_op_num_threads": setup["threads"]}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self.model = onnxruntime_genai.Model(config)

    def run(self, prompt: list[int], new: int, banned: list[int]) -> Answer:
        """The tokens that end a text are in the settings of the graph, not in `banned`."""
        start = time.perf_counter()
        length = len(prompt) + new
        params = self.genai.GeneratorParams(self.model)
        # below the shortest length, no token that ends a text is generated
        params.set_search_options(do_sample=False, min_length=length, max_length=length)
        generator = self.genai.Generator(self.model, params)
        generator.append_tokens(prompt)
        times = [start]
        for _ in range(new):
            generator.generate_next_token()
            times.append(time.perf_counter())
        tokens = [int(token) for token in generator.get_sequence(0)[len(prompt) :]]
        return Answer(times[1] - start, times[-1] - times[1], tokens)


class LlamaCpp:
    """llama.cpp, with the settings of the comparison of a GGUF file."""

    def __init__(self, setup: dict[str, Any]):
        # run by its path: an import of deadhead would load torch
        self.tools = runpy.run_path(setup["llama_cpp"])
        server = self.tools["server"](setup["file"], setup["threads"], setup["context"])
        self.server, self.address = server, server.listening_address

    def run(self, prompt: list[int], new: int, banned: list[int]) -> Answer:
        reply = self.tools["post"](
            self.address,
            "completion",
            prompt=prompt,
            n_predict=new,
            temperature=0.0,
            ignore_eos=True,
            logit_bias=[[token, False] for token in banned],
            cache_prompt=False,
            return_tokens=True,
        )
        times = reply["timings"]
        return Answer(times["prompt_ms"] / 1e3, times["predicted_ms"] / 1e3, reply["tokens"])


RUNTIMES = {
    "transformers": Transformers,
    "onnx": Onnx,
    "onnx-genai": OnnxGenai,
    "llama.cpp": LlamaCpp,
}


def peak_bytes() -> int:
    """The most memory that this process has used at any time.

    As in deadhead.saved.bench, whose import would load torch.
    """
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage counts the memory of the parent process too
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a runtime prints is no answer
    setup = json.loads(sys.argv[1])
    runtime: Any = RUNTIMES[setup["runtime"]](setup)
    print("{}", file=answers, flush=True)  # it is loaded
    for line in sys.stdin:
        answer = runtime.run(**json.loads(line))
        facts = {**answer._asdict(), "peak_bytes": peak_bytes()}
        print(json.dumps(facts), file=answers, flush=True)


if __name__ == "__main__":
    main()
