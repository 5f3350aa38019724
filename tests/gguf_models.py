"""Tiny language models of the structures that GGUF can hold, a tokenizer, and ways to make them
smaller.
"""

import copy
from functools import cache
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from deadhead.heads import head_means, prune
from tiny_models import with_random_vectors

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "llama3": ("Llama", {"tie_word_embeddings": False, "rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {}),
    "qwen3-tied": ("Qwen3", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": False}),
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "yarn": ("Llama", {"rope_parameters": YARN}),
    "linear": ("Llama", {"rope_parameters": {**YARN, "rope_type": "linear"}}),
    "qwen3-yarn": ("Qwen3", {"tie_word_embeddings": True, "rope_parameters": YARN}),
    "qwen3-biases": ("Qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
}
SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
UNEVEN = ["decoder.0.1", "decoder.0.3", "decoder.2.2", "decoder.2.3"]
NEURONS = {("decoder", 0): range(7), ("decoder", 1): range(48), ("decoder", 2): range(30)}
CHANGES: dict[str, dict[str, Any]] = {
    "whole": {},
    "uneven": {"heads": UNEVEN},
    "first-empty": {"heads": [f"decoder.0.{head}" for head in range(4)]},
    "middle-empty": {"heads": [f"decoder.1.{head}" for head in range(4)]},
    "last-empty": {"heads": [f"decoder.2.{head}" for head in range(4)]},
    "neurons": {"heads": UNEVEN, "neurons": NEURONS},
    "mean-fill": {
        "heads": [*UNEVEN, *(f"decoder.1.{head}" for head in range(4))],
        "neurons": NEURONS,
    },
}


@cache
def _built(family):
    name, settings = (FAMILIES | MORE)[family]
    model_class = getattr(transformers, f"{name}ForCausalLM")
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**{**SIZES, **settings})).eval()
    return with_random_vectors(model)


def build(family, change="whole"):
    """A fresh tiny model, made smaller in one way."""
    model = copy.deepcopy(_built(family))
    fill = None
    if change == "mean-fill":
        fill = head_means(model, [{"input_ids": torch.arange(3, 243).view(6, 40)}], neurons=True)
    return prune(model, **CHANGES[change], fill=fill) if CHANGES[change] else model


@cache
def byte_tokenizer():
    """Byte-level BPE that splits text as GPT-2 does, with a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([__doc__ * 3], trainer)
    names = {"bos": "<|im_start|>", "eos": "<|im_end|>", "unk": "<|endoftext|>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template="{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}",
        **{f"{name}_token": text for name, text in names.items()},
    )
