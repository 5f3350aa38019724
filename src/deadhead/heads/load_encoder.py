"""Let sentence-transformers load the pruned encoder in this folder.

    SentenceTransformer("path/of/the/folder", trust_remote_code=True)

deadhead wrote this file; the first line of modules.json names its class. It reads the weights with
load_pruned.py beside it, which needs torch and transformers alone.
"""

from importlib import import_module
from typing import Any

from .load_pruned import load

try:
    modules = import_module("sentence_transformers.sentence_transformer.modules")
except ImportError:  # before version 5.4
    modules = import_module("sentence_transformers.models")
Transformer: Any = modules.Transformer


class PrunedTransformer(Transformer):
    def _load_model(self, folder: str, *args: Any, **kwargs: Any) -> Any:
        model = load(folder)
        if "auto_model" not in dir(type(self)):  # before version 6, which keeps what is returned
            self.auto_model = model
        return model
