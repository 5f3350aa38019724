"""What commands ask about a model, asked alike, and the one way they load it. No torch is loaded to show help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder with a saved model, or its name on the hub (NAME@REVISION for one commit).",
        show_default=False,
    ),
]
Auto = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="Load it as this auto class of transformers, such as AutoModelForTokenClassification; by default as it was saved.",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Precision of the weights: float32, bfloat16, float16, or auto as saved.",
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")]


def load_model(
    name: str, auto: str | None = None, dtype: Any = None, *, device: Any = None, **config: Any
) -> Any:
    """The model by this name, as these options ask for it, on this device if one is given.

    Args:
        dtype: a name or a type of torch; None is that of the folder. A command that computes in another one by default
            gives it: `dtype or torch.float32`.
        device: what `device.device_named` gave, so that a device that is not there is reported before the model is loaded.
        config: fields of the config of a model for a task, such as `id2label`.
    """
    from deadhead.heads import load

    loaded = load(name, auto=auto, dtype="auto" if dtype is None else dtype, **config)
    return loaded if device is None else loaded.to(device)
