"""Sentence encoders: the modules that turn the tokens of a text into its embedding.

embedder_of(model)      how the folder of a loaded model pools, None if it is no sentence encoder
read_embedder(folder)   the same from a folder of sentence-transformers
"""

from .embedder import Embedder, embedder_of, read_embedder

__all__ = ["Embedder", "embedder_of", "read_embedder"]
