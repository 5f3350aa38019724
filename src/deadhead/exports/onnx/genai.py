"""The settings that onnxruntime-genai reads beside a graph: `genai_config.json`.

It takes the shapes of each layer's cache from the inputs of the graph, and skips layers without
such inputs. The numbers of heads in its settings are of the largest layer, and are not used.
"""

from typing import Any

from .cached import CACHE, NEW
from .graph import Graph

FILE = "genai_config.json"
CONTEXT = 2048  # tokens, of a model without a longest text


def settings(model: Any, graph: Graph) -> dict[str, Any]:
    """The settings for one graph of a language model with its cache."""
    config = model.config.get_text_config()
    words = int(model.get_input_embeddings().weight.shape[0])
    caches = [tensor for name, tensor in graph.inputs.items() if name.startswith(CACHE)]
    heads, width = (max(int(tensor.shape[axis]) for tensor in caches) for axis in (1, 3))
    named = ("input_ids", "attention_mask", "position_ids")
    length = int(getattr(config, "max_position_embeddings", None) or CONTEXT)
    return {
        "model": {
            "type": "decoder",
            **_special_tokens(model, words),
            "vocab_size": words,
            "context_length": length,
            "decoder": {
                "session_options": {"provider_options": []},
                "filename": graph.name,
                "hidden_size": int(config.hidden_size),
                "head_size": width,
                "num_attention_heads": heads,
                "num_key_value_heads": heads,
                "num_hidden_layers": int(config.num_hidden_layers),
                "inputs": {
                    **{name: name for name in named if name in graph.inputs},
                    "past_key_names": f"{CACHE}.%d.key",
                    "past_value_names": f"{CACHE}.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": f"{NEW}.%d.key",
                    "present_value_names": f"{NEW}.%d.value",
                },
            },
        },
        "search": {
            "do_sample": False,
            "max_length": length,
            "num_beams": 1,
            # the graph gives a new, longer cache at each step
            "past_present_share_buffer": False,
        },
    }


def _special_tokens(model: Any, words: int) -> dict[str, Any]:
    """The numbers of the tokens that begin, end and pad a text."""
    tokens = {}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = getattr(model.generation_config, name, None)
        value = getattr(model.config, name, None) if value is None else value
        numbers = value if isinstance(value, list) else [value]
        if all(isinstance(number, int) and 0 <= number < words for number in numbers):
            tokens[name] = value
    # without one, a text ends at its longest length
    ends = tokens.setdefault("eos_token_id", [])
    if ends != []:
        tokens.setdefault("pad_token_id", ends[0] if isinstance(ends, list) else ends)
    return tokens
