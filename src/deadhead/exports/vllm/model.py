"""A model class of vLLM whose layers differ in their numbers of heads and neurons.

vLLM's transformers backend builds the model of transformers without weights, puts its own layers
in place of those, and asks its config how many heads each layer has. The class cuts the model in
between, as `load` does, and answers with the heads that are left.
"""

from dataclasses import replace
from typing import Any

from vllm.model_executor.models.transformers import TransformersForCausalLM

from deadhead.errors import UnsupportedModel
from deadhead.heads.load import cut_saved_heads
from deadhead.heads.loading import changed_code
from deadhead.heads.prune import RECORD, allow_plain_loading
from deadhead.heads.saved_config import UNPRUNED, Saved, read_saved
from deadhead.heads.site import Site


class DeadheadForCausalLM(TransformersForCausalLM):
    """A language model in a folder that `save` wrote, pruned or not."""

    def _patch_config(self) -> None:
        allow_plain_loading(self.config)
        super()._patch_config()

    def _create_hf_to_vllm_mapper(self) -> None:
        # vLLM calls this first after it built the model, and before it replaces layers
        saved = read_saved(self.config, self.model_config.model)
        sizes_fit = UNPRUNED in (getattr(self.config, RECORD, None) or {})
        if saved.is_pruned and not saved.padded and not sizes_fit:
            self._cut(saved)
        super()._create_hf_to_vllm_mapper()

    def _cut(self, saved: Saved) -> None:
        sites = cut_saved_heads(self.model, saved)
        if problem := _problem(self.model, sites, self.parallel_config.world_size):
            raise UnsupportedModel(
                f"vLLM cannot serve {saved.folder} as it is: {problem}.",
                'serve its padded form: save(load(FOLDER), OTHER, form="padded")',
            )
        heads = sorted((s for s in sites if s.kind == "heads"), key=lambda site: site.layer)
        whole = self.model_config.model_arch_config
        layers = [
            replace(
                whole,
                total_num_attention_heads=len(site.kept),
                total_num_kv_heads=len(site.keys_of(site.kept)),
            )
            for site in heads
        ]
        if layers:  # else only neurons were removed
            self.model_config.model_arch_config = type(whole).from_layers(layers)


def _problem(model: Any, sites: list[Site], devices: int) -> str | None:
    """Why vLLM cannot serve this cut model, or None."""
    if devices > 1:  # vLLM would deal out the heads of each layer evenly
        return f"expected one device, got {devices}"
    for site in sites:
        if not site.kept:
            return (
                f"expected {site.kind} in every layer, got none in {site.block} layer {site.layer}"
            )
    for paths in changed_code(dict(model.named_modules())).values():
        for path in paths:  # vLLM replaces the code of layers
            return f"expected layers that differ in their sizes alone, got other code in {path}"
    return None
