"""Let sentence-transformers load the pruned encoder in this folder.

    SentenceTransformer("path/of/the/folder", trust_remote_code=True)

deadhead wrote this file; the first line of modules.json names its class. It reads the weights with
load_pruned.py beside it, which needs torch and transformers alone.
"""

from typing import Any

from sentence_transformers.models import Transformer

from .load_pruned import load


class PrunedTransformer(Transformer):
    def _load_model(self, folder: str, *args: Any, **kwargs: Any) -> Any:
        model = load(folder)
        if "auto_model" not in dir(type(self)):  # before version 6, which keeps what is returned
            self.auto_model = model
        return model
