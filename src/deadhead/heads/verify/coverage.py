"""Which architectures of the installed transformers work, measured: a tiny random model of each is proved.

The table this makes is a result, not a promise: every model type is built from its own config class,
shrunk by the names its sizes go by, filled with large random weights and put through `proof.prove`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from deadhead.errors import DeadheadError, NoAttention, UnsupportedModel
from deadhead.heads.discover import discover

from .proof import Proof, prove, sample

LAYERS, HEADS, WIDTH = 2, 4, 8
SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim", "encoder_hidden_size"),
        HEADS * WIDTH,
    ),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
        ),
        LAYERS,
    ),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), LAYERS),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), HEADS
    ),
    **dict.fromkeys(
        ("decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"),
        HEADS,
    ),
    **dict.fromkeys(
        ("head_dim", "d_kv", "d_head", "attention_head_size", "rotary_dim", "global_head_dim"),
        WIDTH,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "num_global_key_value_heads"), 2),
    **dict.fromkeys(
        (
            "intermediate_size",
            "ffn_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "d_ff",
            "d_inner",
            "hidden_dim",
        ),
        48,
    ),
    **dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_dim"), 16
    ),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(
        ("vocab_size", "src_vocab_size", "tgt_vocab_size", "entity_vocab_size", "text_vocab_size"),
        99,
    ),
    **dict.fromkeys(
        (
            "embedding_size",
            "entity_emb_size",
            "word_embed_proj_dim",
            "input_embedding_size",
            "output_embedding_size",
        ),
        HEADS * WIDTH,
    ),
    **dict.fromkeys(
        (
            "max_position_embeddings",
            "n_positions",
            "n_ctx",
            "max_target_positions",
            "max_source_positions",
        ),
        128,
    ),
    **dict.fromkeys(
        (
            "pad_token_id",
            "eos_token_id",
            "bos_token_id",
            "decoder_start_token_id",
            "forced_eos_token_id",
        ),
        None,
    ),
    "langs": None,
    "src_vocab": None,
    "image_size": 16,
    "patch_size": 8,
    "num_mel_bins": 16,
    "projection_dim": 16,
    "num_buckets": 8,
    "relative_attention_num_buckets": 8,
    "attention_window": 8,
    "block_size": 4,
    "num_random_blocks": 1,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}
SPECIAL = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
# What a few families need besides, told by their own constructors when it is missing.
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
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
    },  # else none of so few layers is attention
    "nemotron_h": {"layer_types": ["mamba", "attention"]},
    "mamba2": {"num_heads": 8},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "falcon": {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": HEADS},
    "mpnet": {"relative_attention_num_buckets": 32},
    "whisper": {"max_source_positions": 12},
    "deberta": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 16,
    },
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
        "share_att_key": False,
    },
}


@dataclass(frozen=True)
class Row:
    """One line of the coverage table."""

    model_type: str
    status: str  # pass, refused or n/a
    reason: str = ""


def model_types() -> list[str]:
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING)


def coverage(types: Iterable[str] | None = None) -> Iterator[Row]:
    """Prove one model type after the other; yields a row as soon as it is known."""
    for model_type in model_types() if types is None else types:
        yield measure(model_type)


def measure(model_type: str) -> Row:
    """Build a tiny model of this type and put it to the proof, twice: uneven, and with a layer emptied."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = tiny(model_type)
            layout = discover(model)
        except (NotApplicable, NoAttention) as reason:
            return Row(model_type, "n/a", _one_line(reason))
        except DeadheadError as reason:
            return Row(model_type, "refused", _one_line(reason))
        try:
            inputs, spoken = batch_for(model), prompt_for(model)
            proofs = [
                prove(model, inputs, sample(layout, whole), generate=spoken)
                for whole in (False, True)
            ]
        except DeadheadError as reason:
            return Row(model_type, "refused", _one_line(reason))
        except Exception as problem:  # whatever the model's own code says to our inputs
            return Row(
                model_type,
                "refused",
                f"not proved: the tiny model could not be run: {type(problem).__name__}: {_one_line(problem)}",
            )
    failed = next((p for p in proofs if not p.holds), None)
    if failed is not None:
        return Row(model_type, "refused", f"the proof does not hold: {_differences(failed)}")
    return Row(model_type, "pass", f"{len(layout)} heads in {', '.join(layout.blocks)}")


def _one_line(problem: BaseException) -> str:
    return " ".join(getattr(problem, "message", str(problem)).split())[:400]


def _differences(proof: Proof) -> str:
    return ", ".join(
        f"{name} {value:.1e}" if isinstance(value, float) else f"{name} {value}"
        for name, value in proof.to_dict().items()
    )


class NotApplicable(Exception):
    """This model type has no model of its own that could be proved here."""


def tiny(model_type: str, *, seed: int = 0, **overrides: Any) -> Any:
    """A tiny random model of this type, in evaluation mode, with weights large enough for every head to matter."""
    from transformers import (
        CONFIG_MAPPING,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSpeechSeq2Seq,
    )

    try:
        config = shrunk(CONFIG_MAPPING[model_type], {**FURTHER.get(model_type, {}), **overrides})
    except Exception as problem:
        raise UnsupportedModel(
            f"not proved: no tiny config can be built: {_one_line(problem)}"
        ) from problem
    torch.manual_seed(seed)
    tried: BaseException | None = None
    for auto in (AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq, AutoModelForCausalLM, AutoModel):
        if type(config) not in auto._model_mapping:
            continue
        try:
            model = auto.from_config(config)
        except ImportError as problem:
            raise NotApplicable(
                f"needs a package that is not installed: {str(problem).strip().splitlines()[0][:120]}"
            ) from problem
        except Exception as problem:
            tried = problem
            continue
        randomise(model, seed)
        return model.eval()
    if tried is not None:
        raise UnsupportedModel(
            f"not proved: no tiny model can be built: {type(tried).__name__}: {_one_line(tried)}"
        ) from tried
    raise NotApplicable("has no model class of its own among the auto classes")


def shrunk(config_class: type, overrides: dict[str, Any] | None = None) -> Any:
    """A config with every size made small, also in the configs it is made of."""
    default: Any = config_class()
    wanted: dict[str, Any] = {}
    for name, value in SIZES.items():
        if isinstance(getattr(config_class, name, None), property):
            continue
        if value is None:
            if name in SPECIAL and isinstance(getattr(default, name, None), int):
                wanted[name] = SPECIAL[name]
        elif isinstance(getattr(default, name, None), int | str) and not isinstance(
            getattr(default, name), bool
        ):
            wanted[name] = value
    if "head_dim" in wanted and not _accepts(config_class, "head_dim"):
        del wanted["head_dim"]
    for name, part in vars(default).items():
        if hasattr(part, "to_diff_dict") and hasattr(part, "model_type"):
            wanted[name] = shrunk(type(part)).to_dict()
    kinds_can_be_set = not isinstance(getattr(config_class, "layer_types", None), property)
    if kinds_can_be_set and isinstance(getattr(default, "layer_types", None), list):
        kinds = list(dict.fromkeys(default.layer_types))
        wanted["layer_types"] = (kinds * LAYERS)[:LAYERS]
    wanted.update(overrides or {})
    return config_class(**wanted)


def _accepts(config_class: type, name: str) -> bool:
    return name in inspect.signature(config_class).parameters or name in getattr(
        config_class, "__annotations__", {}
    )


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Large weights everywhere: with the usual small ones a lost head hardly shows, and the proof would be weak."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue  # tables of sines are computed, and not saved
        noise = torch.randn(parameter.shape, generator=generator) * 0.25
        parameter.copy_(
            noise + 1
            if parameter.dim() == 1 and "norm" in name.lower() and not name.endswith("bias")
            else noise
        )


def batch_for(model: Any) -> dict[str, Any]:
    """Inputs the model's forward pass takes: two examples, the second one padded."""
    generator = torch.Generator().manual_seed(1)
    takes = inspect.signature(model.forward).parameters
    config = model.config
    batch: dict[str, Any] = {}
    main = getattr(model, "main_input_name", "input_ids")
    if "input_ids" in takes and main in ("input_ids", "pixel_values"):
        batch["input_ids"] = torch.randint(3, 90, (2, 12), generator=generator)
        if "attention_mask" in takes:
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, 9:] = 0
            batch["attention_mask"] = mask
    if "pixel_values" in takes and (main == "pixel_values" or hasattr(config, "vision_config")):
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 16)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        if main == "pixel_values" or getattr(config, "model_type", "") in (
            "clip",
            "siglip",
            "siglip2",
            "chinese_clip",
            "align",
            "altclip",
            "groupvit",
        ):
            batch["pixel_values"] = torch.randn(
                2, getattr(vision, "num_channels", 3), height, width, generator=generator
            )
    if "input_features" in takes and main == "input_features":
        batch["input_features"] = torch.randn(
            2,
            config.num_mel_bins,
            2 * getattr(config, "max_source_positions", 12),
            generator=generator,
        )
    if "input_values" in takes and main == "input_values":
        batch["input_values"] = torch.randn(2, 4000, generator=generator)
    if "decoder_input_ids" in takes and getattr(config, "is_encoder_decoder", False):
        batch["decoder_input_ids"] = torch.randint(3, 90, (2, 7), generator=generator)
    return batch


def prompt_for(model: Any) -> dict[str, Any] | None:
    """Inputs for generation, where this model generates text."""
    if not hasattr(model, "generate") or not getattr(model, "can_generate", lambda: False)():
        return None
    batch = {
        k: v
        for k, v in batch_for(model).items()
        if k in ("input_ids", "input_features", "attention_mask")
    }
    if "attention_mask" in batch:
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    if getattr(model.config, "is_encoder_decoder", False):
        batch["decoder_start_token_id"] = 2
    return batch
