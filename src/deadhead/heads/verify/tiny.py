"""Tiny random models of every type that transformers knows; `inputs.py` makes inputs for them.

A model is built from its own config class, with all sizes made small by the names they go by. Its
weights are large, so that every head matters.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from deadhead.errors import UnsupportedModel

LAYERS = 2
# Sizes and the fields of configs that get them. The order counts: in a config that has one field
# under two of these names (Whisper), the later size wins.
# fmt: off
_NAMES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (32, ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim",
          "encoder_hidden_size")),
    (LAYERS, ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
              "decoder_layers", "num_encoder_layers", "num_decoder_layers")),
    (4, ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads", "num_encoder_attention_heads",
         "num_decoder_attention_heads")),
    (8, ("head_dim", "d_kv", "d_head", "attention_head_size", "rotary_dim", "global_head_dim")),
    (2, ("num_key_value_heads", "num_kv_heads", "num_global_key_value_heads")),
    (48, ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "d_inner",
          "hidden_dim")),
    (16, ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_dim")),
    (4, ("num_local_experts", "num_experts", "n_routed_experts")),
    (2, ("num_experts_per_tok", "moe_topk")),
    (99, ("vocab_size", "src_vocab_size", "tgt_vocab_size", "entity_vocab_size",
          "text_vocab_size")),
    (32, ("embedding_size", "entity_emb_size", "word_embed_proj_dim", "input_embedding_size",
          "output_embedding_size")),
    (128, ("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions",
           "max_source_positions")),
    (16, ("image_size",)), (8, ("patch_size",)), (16, ("num_mel_bins", "projection_dim")),
    (8, ("num_buckets", "relative_attention_num_buckets", "attention_window")),
    (4, ("block_size",)), (1, ("num_random_blocks", "num_hidden_groups", "inner_group_num")),
)
# fmt: on
SIZES = {name: size for size, names in _NAMES for name in names}
SPECIAL = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
# What a few families need besides; their constructors say so when it is missing.
FURTHER: dict[str, dict[str, Any]] = {
    "esm": {
        "vocab_size": 99,
        "pad_token_id": 1,
        "mask_token_id": 3,
        "position_embedding_type": "rotary",
    },
    "fsmt": {"langs": ["en", "de"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "longformer": {"attention_window": [8, 8]},
    "led": {"attention_window": [8, 8]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},  # or two layers have no attention
    "nemotron_h": {"layer_types": ["mamba", "attention"]},
    "mamba2": {"num_heads": 8},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "falcon": {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4},
    "mpnet": {"relative_attention_num_buckets": 32},
    "whisper": {"max_source_positions": 12},
    "deberta": {**DEBERTA, "max_relative_positions": 16},
    "deberta-v2": {**DEBERTA, "position_buckets": 8, "share_att_key": False},
}


class NotApplicable(Exception):
    """This model type has no model of its own that could be built here."""


def tiny(model_type: str, *, seed: int = 0, **overrides: Any) -> Any:
    """A tiny random model of this type, in evaluation mode."""
    import transformers

    try:
        config_class = transformers.CONFIG_MAPPING[model_type]
        config = shrunk(config_class, {**FURTHER.get(model_type, {}), **overrides})
    except Exception as problem:
        raise UnsupportedModel(
            f"not proved: no tiny config can be built: {one_line(problem)}"
        ) from problem
    torch.manual_seed(seed)
    failure: BaseException | None = None
    for task in ("ForSeq2SeqLM", "ForSpeechSeq2Seq", "ForCausalLM", ""):
        auto = getattr(transformers, f"AutoModel{task}")
        if type(config) not in auto._model_mapping:
            continue
        try:
            model = auto.from_config(config)
        except ImportError as problem:
            reason = str(problem).strip().splitlines()[0][:120]
            raise NotApplicable(f"needs a package that is not installed: {reason}") from problem
        except Exception as problem:
            failure = problem
            continue
        randomise(model, seed)
        return model.eval()
    if failure is None:
        raise NotApplicable("has no model class of its own among the auto classes")
    raise UnsupportedModel(
        f"not proved: no tiny model can be built: {type(failure).__name__}: {one_line(failure)}"
    ) from failure


def one_line(problem: BaseException) -> str:
    return " ".join(getattr(problem, "message", str(problem)).split())[:400]


def shrunk(config_class: type, overrides: dict[str, Any] | None = None) -> Any:
    """A config with every size made small, also in the configs inside it."""
    default: Any = config_class()
    values: dict[str, Any] = {}
    for name, value in {**SIZES, **SPECIAL}.items():
        current = getattr(default, name, None)
        types: Any = int if name in SPECIAL else int | str
        computed = isinstance(getattr(config_class, name, None), property)
        boolean = isinstance(current, bool) and name not in SPECIAL
        if isinstance(current, types) and not computed and not boolean:
            values[name] = value
    if "head_dim" in values and not _accepts(config_class, "head_dim"):
        del values["head_dim"]
    for name, part in vars(default).items():
        if hasattr(part, "to_diff_dict") and hasattr(part, "model_type"):
            values[name] = shrunk(type(part)).to_dict()
    kinds = getattr(default, "layer_types", None)
    computed = isinstance(getattr(config_class, "layer_types", None), property)
    if isinstance(kinds, list) and not computed:
        values["layer_types"] = ([*dict.fromkeys(kinds)] * LAYERS)[:LAYERS]
    return config_class(**{**values, **(overrides or {})})


def _accepts(config_class: type, name: str) -> bool:
    annotations = getattr(config_class, "__annotations__", {})
    return name in inspect.signature(config_class).parameters or name in annotations


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Large weights everywhere: with the usual small ones a removed head hardly shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue  # tables of sines are computed, and not saved
        noise = torch.randn(parameter.shape, generator=generator) * 0.25
        is_scale = parameter.dim() == 1 and "norm" in name.lower() and not name.endswith("bias")
        parameter.copy_(noise + 1 if is_scale else noise)
