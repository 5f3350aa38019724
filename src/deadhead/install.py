"""How the deadhead that runs was installed, and so what to type to add an extra to it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

NAME = "deadhead"


def command(extra: str) -> str:
    """The command that adds this extra to the deadhead that runs, from wherever that came."""
    return f"{_pip()} install {_wanted(extra)}"


def _wanted(extra: str) -> str:
    home = checkout()
    if home is not None:
        return f'-e "{"." if home == Path.cwd() else home}[{extra}]"'
    origin = _origin()
    url = str(origin.get("url", ""))
    if not url:
        return f'"{NAME}[{extra}]"'  # from an index of packages
    if "vcs_info" in origin:
        how = origin["vcs_info"]
        url = f"{how['vcs']}+{url}@{how.get('requested_revision') or how['commit_id']}"
    elif "dir_info" in origin:
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        return f'"{url2pathname(urlsplit(url).path)}[{extra}]"'
    return f'"{NAME}[{extra}] @ {url}"'


def checkout(package: Path = Path(__file__).parent) -> Path | None:
    """The checkout that the package runs from, if it runs from one."""
    home = package.resolve().parents[1]
    try:
        text = (home / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    return home if f'name = "{NAME}"' in text else None


def _origin() -> dict[str, Any]:
    """Where pip installed deadhead from: a folder, a repository, a file; empty if from an index of packages."""
    try:
        return dict(json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}"))
    except (metadata.PackageNotFoundError, ValueError):
        return {}


def _pip() -> str:
    """`pip`, where that is the one of the Python that runs."""
    found = shutil.which("pip")
    mine = found is not None and os.path.realpath(os.path.dirname(found)) == os.path.realpath(
        os.path.dirname(sys.executable)
    )
    return "pip" if mine else f"{sys.executable} -m pip"
