"""How options are grouped in the help, which are rare, and which old names still work.

An option that is in no panel here is in the panel How.
"""

from deadhead.strategies import STRATEGIES

REMOVE, DATA, HOW, OUTPUT, MODEL = "What to remove", "Data", "How", "Output", "Model"


def strategy_flag(name: str) -> str:
    """Return the option of `deadhead prune` for a strategy, such as `--remove-lowest`."""
    return f"--{STRATEGIES[name].flag or f'remove-{name}'.replace('_', '-')}"


PANELS = {
    REMOVE: "remove-heads remove-neurons keep-macs keep-parameters keep-megabytes speedup on even "
    "multiple vocabulary ranking groups",
    DATA: "lang task text guard split data source max-examples max-length examples score-examples "
    "malformed paper published",
    HOW: "",
    OUTPUT: "out form force json plot figures csv onnx gguf int8 type markdown all",
    MODEL: "auto-class dtype device against tokenizer-from teacher preset",
}
PANEL_OF = {f"--{name}": panel for panel, names in PANELS.items() for name in names.split()}
PANEL_OF |= {strategy_flag(name): REMOVE for name in STRATEGIES}

LOADING = ("auto", "dtype")
RARE = {  # command -> parameters that only --help-all shows
    "prune": (*LOADING, "per", "drop_output_bias", "random_k", "per_layer", "per_block"),
    "shrink": (
        *LOADING, "batch", "checkpointing", "device", "form", "guard", "loss", "max_length",
        "multiple", "repair", "score_examples", "seed", "source", "split",
    ),
    "rank": (*LOADING, "source", "checkpointing"),
    "finetune": (*LOADING, "source", "max_length", "checkpointing"),
}  # fmt: skip

OLD = {  # command, or "" for all -> old name of an option -> the new one
    "": {
        "--auto": "--auto-class",
        "--batch": "--batch-size",
        "--checkpointing": "--gradient-checkpointing",
        "--rate": "--learning-rate",
        "--task-file": "--task",
    },
    "shrink": {
        "--heads": "--remove-heads",
        "--compensation": "--repair",
        "--neurons": "--remove-neurons",
        "--macs": "--keep-macs",
        "--parameters": "--keep-parameters",
        "--max-examples": "--score-examples",
    },
    "prune": {
        "--heads": "--remove-heads",
        "--keep": "--keep-per-layer",
        **{f"--{name.replace('_', '-')}": strategy_flag(name) for name in STRATEGIES},
        **{
            f"--remove-{name}": f"--remove-heads-of-{name}"
            for name in ("layers", "lowest-layers", "random-layers")
        },
    },
    "bench": {"--batch": "--batch-sizes", "--length": "--lengths"},
}
SPLIT = {  # command -> option that was another command -> that command
    "export": {"--csv": "export-study"}
}
