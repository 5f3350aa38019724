"""What llama.cpp computes from a GGUF file, written a second time in numpy from its source code.

It reads nothing but the file: the four architectures that deadhead writes, in float32.
"""

import gguf
import numpy as np


class File:
    """A GGUF file: metadata without the name of the architecture, and tensors as float32."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        values = {key: field.contents() for key, field in reader.fields.items()}
        self.architecture = values["general.architecture"]
        self.values = {k.removeprefix(f"{self.architecture}."): v for k, v in values.items()}
        self.tensors = {
            t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float64)
            for t in reader.tensors
        }
        self.kinds = {t.name: t.tensor_type.name for t in reader.tensors}
        self.used: set[str] = set()

    def get(self, name):
        self.used.add(name)
        return self.tensors.get(name)

    def linear(self, name, x):
        bias = self.get(f"{name}.bias")
        return x @ self.get(f"{name}.weight").T + (0 if bias is None else bias)

    def norm(self, name, x):
        epsilon = self.values["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * self.get(f"{name}.weight")


def logits(file, ids):
    """The logits after each token; also fails if a tensor is missing or not used."""
    x = file.get("token_embd.weight")[ids]
    for layer in range(file.values["block_count"]):
        x = x + attention(file, layer, x)
        name = f"blk.{layer}."
        normed = file.norm(f"{name}ffn_norm", x)
        gate = file.linear(f"{name}ffn_gate", normed)
        hidden = gate / (1 + np.exp(-gate)) * file.linear(f"{name}ffn_up", normed)
        assert hidden.shape[-1] == file.values["feed_forward_length"][layer] > 0
        x = x + file.linear(f"{name}ffn_down", hidden)
    matrix = file.get("output.weight")
    assert (matrix is None) or file.architecture != "openelm"
    matrix = file.get("token_embd.weight") if matrix is None else matrix
    answer = file.norm("output_norm", x) @ matrix.T
    assert file.used >= file.tensors.keys(), file.tensors.keys() - file.used
    return answer


def attention(file, layer, x):
    heads = file.values["attention.head_count"][layer]
    keys = file.values["attention.head_count_kv"][layer]
    name, width = f"blk.{layer}.", file.values["attention.key_length"]
    if not heads:
        assert file.architecture == "deci"
        assert layer > 0
        return 0
    normed = file.norm(f"{name}attn_norm", x)
    if file.architecture == "openelm":
        rows = np.cumsum([heads * width, keys * width])
        q, k, v = np.split(file.linear(f"{name}attn_qkv", normed), rows, -1)
    else:
        q, k, v = (file.linear(f"{name}attn_{role}", normed) for role in "qkv")
    q, k, v = (t.reshape(len(x), -1, width) for t in (q, k, v))
    assert (q.shape[1], k.shape[1], v.shape[1]) == (heads, keys, keys)
    if file.architecture != "deci":
        q, k = file.norm(f"{name}attn_q_norm", q), file.norm(f"{name}attn_k_norm", k)
    q, k = turned(file, q), turned(file, k)
    k, v = (np.repeat(t, heads // keys, 1) for t in (k, v))
    scores = np.einsum("qhw,khw->hqk", q, k) / np.sqrt(width)
    scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = np.einsum("hqk,khw->qhw", weights, v)
    if file.architecture == "laguna":
        gate = np.log1p(np.exp(file.linear(f"{name}attn_gate", normed)))
        context = context * gate[..., None]
    return file.linear(f"{name}attn_output", context.reshape(len(x), -1))


def turned(file, x):
    """Rotary positions: pairs side by side in deci, half a head apart in the others."""
    width = x.shape[-1]
    dimensions = file.values["rope.dimension_count"] // (2 if file.architecture == "step35" else 1)
    assert dimensions == width
    frequencies = file.values["rope.freq_base"] ** -(np.arange(0, width, 2) / width)
    factors = file.get("rope_freqs.weight")
    angles = np.arange(len(x))[:, None] * (frequencies / (1 if factors is None else factors))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = (slice(0, None, 2), slice(1, None, 2))
    if file.architecture != "deci":
        first, second = slice(0, width // 2), slice(width // 2, None)
    result = np.empty_like(x)
    result[..., first] = x[..., first] * cos - x[..., second] * sin
    result[..., second] = x[..., second] * cos + x[..., first] * sin
    return result
