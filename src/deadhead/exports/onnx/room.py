"""How many tokens an example may have: no more than the model has positions for."""

from typing import Any

from deadhead.errors import UnsupportedModel

SPARE = 2  # positions that some models keep for padding, as RoBERTa does
UNLIMITED = 1024  # tokens, for models without a limit: more than any example has
HINT = "run the folder itself, in Python: deadhead.load(FOLDER)"


def room_of(model: Any, *, least: int, hint: str = HINT) -> int:
    """The tokens of the longest example that the model can read; `least` are needed.

    hint: what to do with a model that reads fewer.
    """
    config: Any = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return UNLIMITED
    if positions - SPARE < least:
        raise UnsupportedModel(
            f"to trace and check an ONNX graph takes a model with at least {least + SPARE} "
            f"positions (max_position_embeddings), got {positions}.",
            hint,
        )
    return positions - SPARE
