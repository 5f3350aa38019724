"""`python -m deadhead` is `deadhead`."""

from .cli import main

main()
