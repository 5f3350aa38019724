"""Which architectures of the installed transformers deadhead works with: a tiny model of each type.

`docs/coverage.py` and `docs/loading.py` make their tables with this; the tests take their tiny
models from here.
"""
