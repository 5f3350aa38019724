"""The version of deadhead, of what its numbers depend on, and the command that adds an extra.

Everything else is imported inside the functions, so that `import deadhead` is fast.
"""

from functools import cache
from pathlib import Path

__version__ = "0.2.0"
NAME = "deadhead"


@cache
def versions() -> dict[str, str]:
    """What computed the numbers, for rankings and records of trials."""
    import platform
    from importlib import metadata

    names = {"deadhead": __version__, "python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            names[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return names


def install_command(extra: str) -> str:
    """The command that adds this extra to the running deadhead: to its checkout, if it has one."""
    home = checkout()
    if home is None:
        return f'pip install "{NAME}[{extra}]"'
    return f'pip install -e "{"." if home == Path.cwd() else home}[{extra}]"'


def checkout(package: Path = Path(__file__).parent) -> Path | None:
    """The checkout of the repository that the package runs from, or None."""
    home = package.resolve().parents[1]
    try:
        text = (home / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    return home if f'name = "{NAME}"' in text else None
