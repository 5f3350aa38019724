"""`python -m deadhead` is `deadhead`."""

from deadhead.cli import main

if __name__ == "__main__":
    main()
