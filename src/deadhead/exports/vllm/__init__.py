"""A plug-in of vLLM, which serves pruned language models: it adds one model class to vLLM's list.

vLLM calls `register` in each of its processes, by the entry point `vllm.general_plugins`. Nothing
else is imported until a model asks for the class.
"""

ARCHITECTURE = "DeadheadForCausalLM"  # what a user writes for `architectures`


def register() -> None:
    from vllm import ModelRegistry

    ModelRegistry.register_model(ARCHITECTURE, f"deadhead.exports.vllm.model:{ARCHITECTURE}")
