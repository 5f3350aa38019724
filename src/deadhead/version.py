"""The version of deadhead, of what its numbers depend on, and the command that adds an extra.

Everything else is imported inside the functions, so that `import deadhead` is fast.
"""

from functools import cache
from pathlib import Path
from typing import Any

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
    """The command that adds this extra to the running deadhead, wherever that came from."""
    return f"{_pip()} install {_requirement(extra)}"


def _requirement(extra: str) -> str:
    home = checkout()
    if home is not None:
        return f'-e "{"." if home == Path.cwd() else home}[{extra}]"'
    origin = _origin()
    url = str(origin.get("url", ""))
    if not url:
        return f'"{NAME}[{extra}]"'  # from an index of packages
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision') or vcs['commit_id']}"
    return f'"{NAME}[{extra}] @ {url}"'


def checkout(package: Path = Path(__file__).parent) -> Path | None:
    """The checkout of the repository that the package runs from, or None."""
    home = package.resolve().parents[1]
    try:
        text = (home / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    return home if f'name = "{NAME}"' in text else None


def _origin() -> dict[str, Any]:
    """Where pip installed deadhead from (folder, repository, file); empty for a package index."""
    import json
    from importlib import metadata

    try:
        return dict(json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}"))
    except (metadata.PackageNotFoundError, ValueError):
        return {}


def _pip() -> str:
    """`pip`, if that belongs to the running Python."""
    import os
    import shutil
    import sys

    pip, python = shutil.which("pip"), os.path.dirname(sys.executable)
    same = pip is not None and os.path.realpath(os.path.dirname(pip)) == os.path.realpath(python)
    return "pip" if same else f"{sys.executable} -m pip"
