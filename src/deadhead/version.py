"""The version of deadhead, and those of the software that its numbers depend on."""

from __future__ import annotations

from functools import cache

__version__ = "0.1.0"


@cache
def versions() -> dict[str, str]:
    """What computed the numbers, for rankings and records of trials."""
    import platform  # here, so that `import deadhead` is fast
    from importlib import metadata

    names = {"deadhead": __version__, "python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            names[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return names
