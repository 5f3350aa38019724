"""One self-contained page of one or more studies, drawn from `content` and nothing else.

    write("my-study", Path("page.html"))     one file: works offline, loads nothing, under 8 MB

The page holds the content as JSON, the scripts and the style from `assets/`, and Vega from
vl-convert. All text of the data reaches the reader as text: nothing is parsed as markup, Vega runs
with its interpreter instead of compiling, and the page's policy lets the browser run only the
scripts that it names by hash.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files as resource_files
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Any

from deadhead import files
from deadhead.errors import DeadheadError, MissingExtra
from deadhead.studies.store.folder import StudyError, put
from deadhead.studies.store.records import dumps

SCRIPTS = [
    "base",
    "keys",
    "top",
    "tables",
    "maps",
    "explorer",
    "figures",
    "claims",
    "trials",
    "sheet",
    "trial",
    "compare",
    "main",
]
MOST = 8_000_000  # bytes of a page
CODE = 1_200_000  # bytes of a page that are not content
LIGHTER = ("sample", "details", "epochs")  # what records lose, in this order, to fit into a page


class PageError(DeadheadError):
    """A page that cannot be written."""


def write(
    folder: str | Path | Sequence[str | Path],
    out: str | Path,
    warn: Callable[[str], None] = lambda text: None,
) -> Path:
    """Draw one study, or several side by side, into one HTML file.

    warn: called with a sentence about what cannot be shown: damaged records.
    """
    from .content import content

    folders = [Path(f) for f in ([folder] if isinstance(folder, str | Path) else folder)]
    names = _names(folders) if len(folders) > 1 else [""]
    contents = [content(folder) for folder in folders]
    for study, name in zip(contents, names, strict=True):
        for text in study["damaged"]:
            warn(f"{name}: {text}" if name else text)
        study |= {"folder": name} if name else {}
    page, target = html(*contents), Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise PageError(
            f"cannot write {target}: {problem.strerror}.",
            "name a file in a folder you may write to with --out",
        ) from problem
    put(target, lambda draft: draft.write_bytes(page.encode("utf-8", "replace")))
    return target


def html(*contents: Mapping[str, Any]) -> str:
    """The page of one content, or of several to compare."""
    if not contents:
        raise StudyError("got no study.", "name the folder of a study")
    room = (MOST - CODE) // len(contents)
    studies = ",".join(_fitting(content, room) for content in contents)
    title = " and ".join(str(content.get("name", "a study")) for content in contents)
    scripts = [_vega()] if any(content.get("figures") for content in contents) else []
    scripts.append(_own_script())
    return Template(asset("page.html")).substitute(
        policy=_policy(scripts, asset("page.css")),
        title=escape(f"{title} · deadhead"),
        style=asset("page.css"),
        content=f'{{"studies":[{studies}]}}',
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def embedded(payload: Mapping[str, Any]) -> str:
    """JSON for a script element: it holds no `<`, so nothing can close the element."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):  # `dumps` writes null for nan, and a number for numpy's
        text = json.dumps(json.loads(dumps(payload)), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _policy(scripts: Sequence[str], style: str) -> str:
    """What the browser may do: run these scripts, and use this style."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src '{_hash(style)}'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return (resource_files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _own_script() -> str:
    return "(() => {\n" + "\n".join(asset(f"{name}.js") for name in SCRIPTS) + "\n})();"


def check_installed() -> None:
    """Raise an error unless all that a page needs is installed; called before hours of work."""
    if find_spec("vl_convert") is None:
        raise MissingExtra("vl-convert-python", "report", "a page with figures")


@cache
def _vega() -> str:
    """Vega as one script. Bundling takes seconds, so the user's cache folder keeps each version."""
    check_installed()
    from vl_convert import javascript_bundle

    cached = files.cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, ValueError):
        text, mark = cached.read_text(encoding="utf-8").split("\n//", 1)
        if mark == _hash(text):
            return text
    text = str(javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError):  # the cache folder may be read-only
        cached.parent.mkdir(parents=True, exist_ok=True)
        files.write(cached, f"{text}\n//{_hash(text)}", durable=False)
    return text


def _fitting(content: Mapping[str, Any], room: int) -> str:
    """The content as JSON; if it is too large, its records become lighter, then fewer."""
    members = {name: _member(name, value) for name, value in content.items() if name != "records"}
    room -= sum(map(_size, members.values()))
    records = content.get("records", {})
    texts = [_member(trial, record) for trial, record in records.items()]
    for part in LIGHTER:
        if sum(map(_size, texts)) <= room:
            break
        records = {t: {k: v for k, v in r.items() if k != part} for t, r in records.items()}
        texts = [_member(trial, record) for trial, record in records.items()]
    ends = accumulate(map(_size, texts))
    kept = [text for text, end in zip(texts, ends, strict=True) if end <= room]
    members["records"] = f'"records":{{{",".join(kept)}}}'
    return f"{{{','.join(members[name] for name in {**content, 'records': None})}}}"


def _member(name: str, value: Any) -> str:
    """One member of a JSON object; the text of a content is joined from these, to write it once."""
    return embedded({name: value})[1:-1]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + 1  # with the comma


def _names(folders: Sequence[Path]) -> list[str]:
    """Short names that distinguish the folders."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]
