"""Configs of tiny models: every size of a config class made small, by the names sizes go by."""

from __future__ import annotations

import inspect
from typing import Any

LAYERS = 2
HEADS = 4
# Sizes and the fields of configs that get them. The order counts: in a config that has one field
# under two of these names (Whisper), the later size wins.
# fmt: off
_NAMES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (32, ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim",
          "encoder_hidden_size")),
    (LAYERS, ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
              "decoder_layers", "num_encoder_layers", "num_decoder_layers", "depth")),
    (HEADS, ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
             "decoder_attention_heads", "num_encoder_attention_heads",
             "num_decoder_attention_heads", "num_sliding_attention_heads")),
    (8, ("head_dim", "d_kv", "d_head", "attention_head_size", "rotary_dim", "global_head_dim")),
    (2, ("num_key_value_heads", "num_kv_heads", "num_global_key_value_heads", "kv_n_heads")),
    (48, ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "d_inner",
          "hidden_dim", "ffn_hidden_size", "feed_forward_size", "block_ff_dim")),
    (16, ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_dim",
          "expert_ffn_hidden_size", "shared_intermediate_size", "share_expert_dim")),
    (4, ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")),
    (2, ("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts", "zero_expert_num")),
    (1, ("n_group", "topk_group", "n_shared_experts")),
    # latent attention: narrow values show that the width of a head is not that of its query
    (16, ("q_lora_rank", "kv_lora_rank")), (8, ("qk_nope_head_dim",)), (4, ("qk_rope_head_dim",)),
    (6, ("v_head_dim",)),
    # sizes of the small attention that chooses which tokens the other reads
    (2, ("index_n_heads", "indexer_n_heads")), (1, ("indexer_kv_heads",)),
    (8, ("index_head_dim", "indexer_head_dim")), (4, ("index_topk", "indexer_budget")),
    (2, ("index_kpool", "indexer_compress_ratio")),
    (8, ("mamba_n_heads", "mamba_d_head", "n_mamba_heads", "mamba_num_heads", "mamba_head_dim",
         "mamba_chunk_size")),
    (4, ("linear_num_heads", "linear_num_value_heads")), (2, ("linear_num_key_heads",)),
    (8, ("linear_head_dim", "linear_key_head_dim", "linear_value_head_dim")),
    (64, ("mamba_d_ssm",)), (16, ("mamba_d_state",)),
    (99, ("vocab_size", "src_vocab_size", "tgt_vocab_size", "entity_vocab_size",
          "text_vocab_size", "vocab_size_per_layer_input")),
    (32, ("embedding_size", "entity_emb_size", "word_embed_proj_dim", "input_embedding_size",
          "output_embedding_size")),
    (8, ("hidden_size_per_layer_input", "laurel_rank")),
    (128, ("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions",
           "max_source_positions")),
    (16, ("image_size",)), (8, ("patch_size",)), (16, ("num_mel_bins", "projection_dim")),
    (8, ("num_buckets", "relative_attention_num_buckets", "attention_window")),
    (4, ("block_size",)), (1, ("num_random_blocks", "num_hidden_groups", "inner_group_num")),
    (2, ("attn_layer_period",)), (1, ("attn_layer_offset",)),  # or two layers have no attention
    (0, ("num_kv_shared_layers",)),
)
# fmt: on
SIZES = {name: size for size, names in _NAMES for name in names}
FEWER = ("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts")  # never more than usual
SPECIAL = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
SHARED_KEYS = {"num_hidden_layers": 4, "num_kv_shared_layers": 2}
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
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0}
            for kind in ("sliding_attention", "full_attention")
        }
    },
    "step3p5": {"sliding_window": 8},
    "glm5_next_text": {"qk_rope_head_dim": 0},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "funnel": {"block_sizes": [1, 1]},
    # the last two layers read the keys and values of the first two
    **dict.fromkeys(("gemma3n_text", "gemma4_text"), SHARED_KEYS),
    # they tie their layers with attention to each other
    **{kind: {"layers_block_type": ["hybrid", "hybrid"]} for kind in ("zamba", "zamba2")},
    "reformer": {
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [16, 16],
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
    },
    "bamba": {"attn_layer_indices": [1]},
    "nemotron_h": {"layer_types": ["mamba", "attention"]},
    "mamba2": {"num_heads": 8},
    # as many frames as tokens, whatever the heads say
    "vits": {"speaking_rate": 1e9, "upsample_initial_channel": 32},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "falcon": {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4},
    "mpnet": {"relative_attention_num_buckets": 32},
    "whisper": {"max_source_positions": 12},
    "deberta": {**DEBERTA, "max_relative_positions": 16},
    "deberta-v2": {**DEBERTA, "position_buckets": 8, "share_att_key": False},
}
# Arguments of `shrunk` for configs that leave out sizes which their models need, or whose model
# has a key for each head. The first that builds a model is taken.
EVEN = {"num_key_value_heads": HEADS}
WIDE = {"head_dim": 16}  # room for rotary positions in a quarter of a head, or in two directions
ATTEMPTS: tuple[dict[str, Any], ...] = (
    {},
    {"absent": True},
    {"sizes": EVEN},
    {"absent": True, "sizes": EVEN},
    {"sizes": WIDE},
)


def shrunk(
    config_class: type,
    overrides: dict[str, Any] | None = None,
    *,
    absent: bool = False,
    sizes: dict[str, int] | None = None,
) -> Any:
    """A config with every size made small, also in the configs inside it.

    absent: also give sizes to fields that the class leaves at None.
    sizes: other sizes for some names, also in the configs inside it.
    """
    default: Any = config_class()
    # a config with other sizes in some layers refuses to say a size by default
    default.allow_global_per_layer_attribute_access = True
    values: dict[str, Any] = {}
    for name, value in {**SIZES, **SPECIAL, **(sizes or {})}.items():
        current: Any = getattr(default, name, None)
        types: Any = int if name in SPECIAL else int | str
        boolean = isinstance(current, bool) and name not in SPECIAL
        missing = absent and current is None and name in SIZES and _accepts(config_class, name)
        fits = isinstance(current, types) and not boolean
        if (fits or missing) and not _is_computed(config_class, name):
            values[name] = min(value, current) if name in FEWER and fits else value
    if "kv_lora_rank" in values:  # latent attention: a key for each head, rotated in part
        values |= {"num_key_value_heads": HEADS, "head_dim": values.get("qk_rope_head_dim", 4)}
    if "head_dim" in values and not _accepts(config_class, "head_dim"):
        del values["head_dim"]
    for name, part in vars(default).items():
        if hasattr(part, "to_diff_dict") and hasattr(part, "model_type"):
            values[name] = shrunk(type(part), absent=absent, sizes=sizes).to_dict()
    further = FURTHER.get(getattr(config_class, "model_type", ""), {}) | (overrides or {})
    layers = further.get("num_hidden_layers", LAYERS)
    values |= _layer_lists(default, layers, absent)
    if rope := getattr(default, "rope_parameters", None):
        sections = "mrope_section" in getattr(config_class, "ignore_keys_at_rope_validation", ())
        wide = (
            {"mrope_section": [0, 0, 0], **rope} if sections else rope
        )  # or the model has its own
        narrow = _narrow_rope(wide, values.get("head_dim", SIZES["head_dim"]))
        if narrow != rope:  # else the config computes them for its new sizes
            values["rope_parameters"] = narrow
    return config_class(**{**values, **further})


def _layer_lists(default: Any, layers: int, absent: bool) -> dict[str, Any]:
    """The lists with an entry for each layer, cut to the layers of a tiny model."""
    config_class, usual = type(default), getattr(default, "num_hidden_layers", None)
    lists: dict[str, Any] = {}
    for name, entries in [*vars(default).items()]:
        if not isinstance(entries, list) or len(entries) != usual or name.startswith("_"):
            continue
        if all(isinstance(entry, str) for entry in entries):
            lists[name] = ([*dict.fromkeys(entries)] * layers)[:layers]
        elif name in SIZES:
            lists[name] = [SIZES[name]] * layers
        else:  # some of the first and of the last, or the first if they are numbers of layers
            numbered = any(type(entry) is int and entry >= layers for entry in entries)
            half = layers if numbered else layers // 2
            lists[name] = entries[:half] + entries[len(entries) + half - layers :]
    kinds = lists.get("layer_types", getattr(default, "layer_types", None))
    if _is_computed(config_class, "layer_types"):
        lists.pop("layer_types", None)
    elif kinds is None and absent and _accepts(config_class, "layer_types"):
        lists["layer_types"] = ["full_attention"] * layers
    elif isinstance(kinds, list) and {*kinds} == {"linear_attention"}:
        lists["layer_types"] = ["linear_attention", "full_attention"]
    return lists


def _narrow_rope(rope: dict[str, Any], width: int) -> dict[str, Any]:
    """Parameters of rotary positions, with the sections of images cut to heads of this width."""
    narrow = dict(rope)
    for name, value in rope.items():
        if isinstance(value, dict):
            narrow[name] = _narrow_rope(value, width)
    if "mrope_section" in rope:
        pairs = int(width * rope.get("partial_rotary_factor", 1)) // 2
        others = len(rope["mrope_section"]) - 1
        narrow["mrope_section"] = [pairs - others, *[1] * others]
    return narrow


def _is_computed(config_class: type, name: str) -> bool:
    """Whether a config computes this field, so that it cannot be set."""
    name = getattr(config_class, "attribute_map", {}).get(name, name)
    return isinstance(getattr(config_class, name, None), property)


def _accepts(config_class: type, name: str) -> bool:
    annotations = getattr(config_class, "__annotations__", {})
    return name in inspect.signature(config_class).parameters or name in annotations
