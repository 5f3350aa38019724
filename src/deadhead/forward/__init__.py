"""Run a model on a batch, for every kind of model: encoder, decoder or both. Imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadhead.errors import DataError, UnsupportedModel

if TYPE_CHECKING:
    import torch
    from torch import Tensor

IGNORED = -100  # the label that transformers leaves out of a loss
OWN = "deadhead."  # prefix of what a batch holds for deadhead and not for the model
VOCABULARIES = ("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size")
# names of tables with a row for each position
POSITIONS = ("position_embeddings", "embed_positions", "wpe", "positions_embed")
# Causal language models whose labels are already in their place: transformers does not shift them.
UNSHIFTED = ("XLNetLMHeadModel", "XLMWithLMHeadModel", "FlaubertWithLMHeadModel")


def forward(model: Any, batch: Mapping[str, Any]) -> Any:
    """The outputs of the model, without the loss of the whole batch and without a cache."""
    labels = batch.get("labels")
    inputs = {
        name: value
        for name, value in batch.items()
        if name != "labels" and not name.startswith(OWN)
    }
    if (
        is_encoder_decoder(model)
        and "decoder_input_ids" not in inputs
        and labels is not None
        and labels.dim() == 2
    ):
        shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
        if shift is None:
            inputs["labels"] = labels  # the model shifts them itself
        else:
            inputs["decoder_input_ids"] = shift(labels=labels)
    if "use_cache" in inspect.signature(type(model).forward).parameters:
        inputs["use_cache"] = False
    try:
        return model(**inputs)
    except ValueError as problem:
        needs_text = "decoder_input_ids" in str(problem)
        if not needs_text or any(name.startswith("decoder_input") for name in inputs):
            raise
        message = f"the decoder of {type(model).__name__} needs a text of its own, and the batch "
        message += f"has none; it has: {', '.join(name for name in inputs if name in batch)}."
        raise DataError(message, "give each batch labels, or decoder_input_ids") from None


def real_tokens(batch: Mapping[str, Any], *, decoder: bool = False) -> Tensor | None:
    """Which tokens of a batch are no padding, batch x tokens; None where nothing says so.

    decoder: those of the decoder of an encoder-decoder, by its own mask or by the labels. Without
        a text of its own, as in a classifier, it reads as many tokens of that of the encoder.
    """
    if decoder:
        mask, labels = batch.get("decoder_attention_mask"), batch.get("labels")
        if mask is None and labels is not None and labels.dim() == 2:
            mask = labels != IGNORED
        elif mask is None and batch.get("decoder_input_ids") is None and "input_ids" in batch:
            mask = batch.get("attention_mask")
    else:
        mask = batch.get("attention_mask")
    return None if mask is None or mask.dim() != 2 else mask.bool()


def precise(values: Tensor) -> Tensor:
    """The values in float32, if they are in half precision."""
    import torch

    return values.to(torch.promote_types(values.dtype, torch.float32))


def device_of(model: Any) -> torch.device:
    """Where a model reads its inputs: the device of its first weight.

    The weights of an offloaded layer are on the device "meta" until the layer runs; if all are,
    accelerate knows where they will run.
    """
    parameters = model.parameters()
    first = next(parameters).device
    if first.type == "meta":
        first = next((p.device for p in parameters if p.device.type != "meta"), first)
    if first.type == "meta" and getattr(model, "hf_device_map", None):
        hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
        places = (getattr(hook, "execution_device", None) for hook in hooks)
        place = next((place for place in places if place is not None), "cpu")
        return type(first)(place)
    return first


def on_device(batch: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """The batch on the device where the model reads it."""
    device = device_of(model)
    if device.type == "meta":
        message = f"expected a {type(model).__name__} with weights in memory, got the meta device."
        raise UnsupportedModel(message, "load the weights: deadhead.load(FOLDER)")
    moved = {
        name: _moved(value, device) if hasattr(value, "is_cuda") else value
        for name, value in batch.items()
    }
    mask = batch.get("attention_mask")
    if device.type == "cuda" and mask is not None and not mask.is_cuda and bool(mask.all()):
        # it hides nothing, and transformers would wait for the device to find that out
        del moved["attention_mask"]
    return moved


def _moved(value: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and not value.is_cuda:
        value = value.pin_memory()  # a copy from other memory would wait until the device is idle
    return value.to(device, non_blocking=True)


def configs_of(model: Any) -> list[Any]:
    """The configs of a model and of the models in it, each once."""
    configs = (getattr(module, "config", None) for module in model.modules())
    # a part may have something else under this name
    return [*{id(config): config for config in configs if hasattr(config, "__dict__")}.values()]


def vocabulary_sizes(model: Any) -> list[int]:
    """How many tokens the parts of a model know, by the configs of all parts."""
    sizes = (vars(config).get(name) for config in configs_of(model) for name in VOCABULARIES)
    return [size for size in sizes if isinstance(size, int) and size > 0]


def embedding_rows(model: Any) -> int | None:
    """How many tokens a model has embeddings for; None where it does not read tokens."""
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):  # raised where there is no table of tokens
        rows = None
    if not isinstance(rows, int):
        rows = getattr(getattr(model, "config", None), "vocab_size", None)
    return rows if isinstance(rows, int) and rows > 0 else None


def token_limit(model: Any, *, decoder: bool = False) -> int | None:
    """How many tokens of a text the model has positions for; None if its config sets no limit.

    decoder: of the text that the decoder of an encoder-decoder reads.
    """
    config: Any = getattr(model, "config", None)
    if hasattr(config, "get_text_config"):
        config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None:  # a decoder behind an encoder of sounds, which has another limit
        positions = getattr(config, "max_target_positions", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    ahead = 0
    if decoder or not is_encoder_decoder(model):
        # ProphetNet reads the position of the token that it predicts, too
        ahead = int(any(name.endswith("ngram_embeddings") for name, _ in model.named_modules()))
    for name, module in model.named_modules():
        rows = getattr(module, "weight", ())
        if name.endswith("position_embeddings") and len(rows) == positions:
            # RoBERTa and its relatives number their tokens from behind the row of padding
            padding = getattr(module, "padding_idx", None)
            return positions - ahead if padding is None else positions - ahead - int(padding) - 1
    return positions


def position_rows(model: Any, *, decoder: bool = False) -> int | None:
    """How many tokens a learnt table of positions has rows for; None where there is no such table.

    Rotary and computed positions also exist behind the limit of the config.
    decoder: as in `token_limit`
    """
    learnt = any(
        name.rpartition(".")[2] in POSITIONS
        and hasattr(module, "num_embeddings")
        and "Sinusoidal" not in type(module).__name__
        for name, module in model.named_modules()
    )
    return token_limit(model, decoder=decoder) if learnt else None


def is_encoder_decoder(model: Any) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def finds_answers(model: Any) -> bool:
    """Whether it is a model of question answering, which predicts where an answer starts and ends.

    Its labels are the positions of both, examples x 2.
    """
    names = ("ForQuestionAnswering", "ForQuestionAnsweringSimple")
    return any(cls.__name__.endswith(names) for cls in type(model).__mro__)


def is_causal(model: Any) -> bool:
    """Whether it is a language model in which no token reads those behind it.

    An encoder that is loaded as a decoder reads all tokens unless its config says `is_decoder`.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    config = getattr(model, "config", None)
    encoder = getattr(config, "model_type", "") in MASKED and not getattr(
        config, "is_decoder", False
    )
    return not encoder and not is_encoder_decoder(model) and _shifts_labels(model)


def predicts_next(model: Any, labels: Tensor) -> bool:
    """Whether the output at a position is for the label of the next one, as in causal models."""
    return labels.dim() != 1 and not is_encoder_decoder(model) and _shifts_labels(model)


def _shifts_labels(model: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    names = {cls.__name__ for cls in type(model).__mro__}
    causal = names & set(CAUSAL.values()) or any(name.endswith("ForCausalLM") for name in names)
    return bool(causal) and not names & set(UNSHIFTED)
