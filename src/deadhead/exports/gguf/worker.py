"""Run llama.cpp on a GGUF file, in a process of its own: it ends the process where a file is wrong.

Reads one request as JSON and writes one answer as JSON; `runtime.ask` starts it. It imports nothing
of deadhead, so that it starts fast.
"""

import json
import sys
import urllib.request
from typing import Any

TOKENS = 16  # generated after each prompt
LIKELIEST = 512  # tokens whose log-probabilities are compared at each position
CONTEXT = 512  # tokens


def main() -> None:
    request = json.load(sys.stdin)
    running = server(request["file"])  # ends with this name
    address = running.listening_address
    answer = {
        "answers": [_complete(address, prompt) for prompt in request["prompts"]],
        "tokens": [
            post(address, "tokenize", content=text, add_special=True)["tokens"]
            for text in request["texts"]
        ],
    }
    print("\n" + json.dumps(answer))


def server(file: str, threads: int = 1, context: int = CONTEXT) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.n_ctx, params.n_parallel, params.n_gpu_layers = context, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # half-precision caches and flash attention change logits by up to 3e-2
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.warmup = False
    return xllamacpp.Server(params)


def _complete(address: str, prompt: list[int]) -> list[dict[str, Any]]:
    """The greedy continuation of a prompt: each token, and the likeliest tokens at its place.

    One request per token: an answer of several tokens leaves out the probabilities of tokens that
    are no whole character.
    """
    steps: list[dict[str, Any]] = []
    for _ in range(TOKENS):
        ids = [*prompt, *(step["token"] for step in steps)]
        reply = post(
            address,
            "completion",
            prompt=ids,
            n_predict=1,
            temperature=0.0,
            n_probs=LIKELIEST,
            return_tokens=True,
        )
        if reply["stop_type"] != "limit" or not reply["tokens"]:
            break
        places = reply.get("completion_probabilities") or [{"top_logprobs": []}]
        tops = [(top["id"], top["logprob"]) for top in places[0]["top_logprobs"]]
        steps.append({"token": reply["tokens"][0], "likeliest": tops})
    return steps


def post(address: str, path: str, **body: Any) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{address}/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as reply:
        return dict(json.load(reply))


if __name__ == "__main__":
    main()
