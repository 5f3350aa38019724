"""One self-contained page of a study, or of several: drawn from `content` and nothing else.

    write("my-study", Path("page.html"))         one file: works offline, loads nothing, under 8 MB

The content lies in the page as JSON; the scripts and the style are the files of `assets/`, put one
after the other, and Vega comes out of vl-convert. All text of the data reaches the reader as text:
nothing is ever parsed as markup, Vega runs with its interpreter instead of compiling, and the page's
own policy lets the browser run the scripts named in it by hash and no others.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Any

from deadhead.errors import DeadheadError, MissingExtra
from deadhead.files import cache_folder
from deadhead.report.files import put
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import dumps

SCRIPTS = (
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
)
MOST = 8_000_000  # bytes of a page
TEXTS = (
    "sample",
    "details",
    "epochs",
)  # what full records lose, in this order, where a page would grow too large


class PageError(DeadheadError):
    """A page that cannot be made as asked."""


def write(
    folder: str | Path | Sequence[str | Path],
    out: str | Path,
    warn: Callable[[str], None] = lambda text: None,
) -> Path:
    """Draw a study, or several beside each other, into one HTML file.

    warn: called with a sentence about what could not be shown: damaged records.
    """
    from .content import content

    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    named = _names([Path(one) for one in folders])
    contents = [content(Path(one)) for one in folders]
    for one, name in zip(contents, named, strict=True):
        for text in one["damaged"]:
            warn(f"{name}: {text}" if len(folders) > 1 else text)
    whole = html(
        *(
            {**one, **({"folder": name} if len(folders) > 1 else {})}
            for one, name in zip(contents, named, strict=True)
        )
    )
    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise PageError(
            f"{target} could not be written: {problem.strerror}.",
            "name a file in a folder you may write to with --out",
        ) from problem
    return put(target, whole.encode("utf-8", "replace"))


def html(*contents: Mapping[str, Any]) -> str:
    """The page of one content, or of several to compare."""
    if not contents:
        raise StudyError("no study was named.", "name the folder of a study")
    fitting = [
        _fitting(one, MOST // len(contents) - 1_200_000 // len(contents)) for one in contents
    ]
    return _drawn(contents, f'{{"studies":[{",".join(fitting)}]}}')


def assembled(payload: Mapping[str, Any], live: str = "") -> str:
    """The page of `{"studies": [...]}`, or of `{"list": [...]}`; `live` is the ETag of the payload where it is served."""
    return _drawn(payload.get("studies", ()), embedded(payload), live)


def _drawn(studies: Sequence[Mapping[str, Any]], payload: str, live: str = "") -> str:
    title = " and ".join(str(one.get("name", "a study")) for one in studies) or "studies"
    scripts = [_vega()] if any(one.get("figures") for one in studies) else []
    scripts.append(_own_script())
    return Template(_asset("page.html")).substitute(
        policy=_policy(scripts, _asset("page.css"), live=bool(live)),
        live=escape(live),
        title=escape(f"{title} · deadhead"),
        style=_asset("page.css"),
        content=payload,
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def embedded(payload: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element: no `<` can end it."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):  # what is no number becomes null, what numpy made a number
        text = json.dumps(json.loads(dumps(payload)), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _policy(scripts: Sequence[str], style: str, *, live: bool) -> str:
    """What the browser may do with this page: run these scripts, use this style, and ask only the server it came from."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    asks = "'self'" if live else "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src '{_hash(style)}'; img-src data:; connect-src {asks}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _own_script() -> str:
    return "(() => {\n" + "\n".join(_asset(f"{name}.js") for name in SCRIPTS) + "\n})();"


def check_installed() -> None:
    """An error unless all that writing a page needs is installed; asked before hours are spent on what the page shows."""
    if find_spec("vl_convert") is None:
        raise MissingExtra("vl-convert-python", "report", "a page with figures")


@cache
def _vega() -> str:
    """Vega as one script. Bundling it takes seconds, so it is kept in the user's cache folder, by the version it is of."""
    check_installed()
    from vl_convert import javascript_bundle

    kept = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    try:
        text, mark = kept.read_text(encoding="utf-8").split("\n//", 1)
        if mark == _hash(text):
            return text
    except (OSError, ValueError):
        pass
    text = str(javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError, DeadheadError):  # a cache that cannot be written is none
        kept.parent.mkdir(parents=True, exist_ok=True)
        put(kept, f"{text}\n//{_hash(text)}".encode())
    return text


def _fitting(content: Mapping[str, Any], room: int) -> str:
    """The content as JSON, with its full records made lighter, then fewer, where it would not fit; all else stays whole."""
    members = {name: _member(name, value) for name, value in content.items() if name != "records"}
    room -= sum(map(_size, members.values()))
    records = content.get("records", {})
    texts = [_member(name, one) for name, one in records.items()]
    for part in TEXTS:
        if sum(map(_size, texts)) <= room:
            break
        records = {
            name: {k: v for k, v in one.items() if k != part} for name, one in records.items()
        }
        texts = [_member(name, one) for name, one in records.items()]
    kept = [
        text for text, end in zip(texts, accumulate(map(_size, texts)), strict=True) if end <= room
    ]
    members["records"] = f'"records":{{{",".join(kept)}}}'
    return f"{{{','.join(members[name] for name in {**content, 'records': None})}}}"


def _member(name: str, value: Any) -> str:
    """One member of a JSON object. The text of a content is put together from these, since writing it twice would take long."""
    return embedded({name: value})[1:-1]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + 1  # with the comma


def _names(folders: Sequence[Path]) -> list[str]:
    """Short names that tell the folders apart."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]
