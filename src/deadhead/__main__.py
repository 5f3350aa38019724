"""`python -m deadhead` is `deadhead`."""

from .cli import main

if __name__ == "__main__":
    main()
