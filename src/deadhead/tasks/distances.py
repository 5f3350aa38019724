"""How far apart two languages are: by URIEL, which the paper used, or by URIEL+ of 2024.

`uriel` reads the vectors of the package lang2vec. What no source says about a language is predicted
from its nearest neighbours (knn), so every distance is known for every pair. Syntactic,
phonological, inventory and featural (all three together) are cosine distances of these, genetic is
that of the branches of the family tree, and geographic is the great-circle distance in shares of
half the way round the earth. `uriel+` uses the package urielplus: other sources, angular distances,
and nothing where two languages have no feature in common.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, MissingExtra, unknown_name

from .languages import language, languages

DISTANCES = ("genetic", "geographic", "syntactic", "phonological", "inventory", "featural")
DATABASES = ("uriel", "uriel+")
KNN = "feature_predictions.npz"
# distance -> the file of lang2vec it is computed from, and the prefix of its features
FILES: Mapping[str, tuple[str, str]] = {
    "genetic": ("family_features.npz", ""),
    "geographic": ("geocoord_features.npz", ""),
    "syntactic": (KNN, "S_"),
    "phonological": (KNN, "P_"),
    "inventory": (KNN, "INV_"),
    "featural": (KNN, ""),
}


def distances(
    source: str, target: str, names: Sequence[str] = DISTANCES, database: str = "uriel"
) -> dict[str, float]:
    """Return the distances between two languages, from 0 (equal) to 1; nan if URIEL+ has none.

    names: keys of DISTANCES. database: `uriel`, as in the paper, or `uriel+`.
    """
    if database not in DATABASES:
        raise unknown_name("database of languages", database, DATABASES)
    for name in names:
        if name not in DISTANCES:
            raise unknown_name("distance between languages", name, DISTANCES)
    pair = sorted([language(source).iso639_3, language(target).iso639_3])
    if pair[0] == pair[1]:
        return dict.fromkeys(names, 0.0)
    measure = _uriel if database == "uriel" else _uriel_plus
    values = {name: measure(name, *pair) for name in names}
    if all(value != value for value in values.values()):
        message = f"{database} has no distance between {source} and {target}."
        raise DataError(message, "compare other languages")
    return values


@cache
def _uriel(name: str, source: str, target: str) -> float:
    import numpy as np

    vectors = _vectors(*FILES[name])
    if source not in vectors or target not in vectors:
        return float("nan")
    a, b = vectors[source], vectors[target]
    # geographic: distances from 299 places. Two languages differ by at most what is between them,
    # and for some place by nearly that much.
    if name == "geographic":
        return float(np.abs(a - b).max())
    return float(1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@cache
def _vectors(name: str, prefix: str) -> dict[str, Any]:
    """Return the vectors of the languages known here, by their code of three letters.

    lang2vec's own module is not imported: it needs pkg_resources, which setuptools no longer has.
    Nor is its package looked for by name: it installs a script lang2vec.py beside `deadhead`, which
    the command `deadhead` would find first.
    """
    import numpy as np

    try:
        installed = metadata.distribution("lang2vec")
    except metadata.PackageNotFoundError as error:
        raise MissingExtra("lang2vec", "lang", "The distance between languages") from error
    place = Path(str(installed.locate_file(f"lang2vec/data/{name}")))
    known = {lang.iso639_3 for lang in languages().values()}
    with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        codes, features = stored["langs"].tolist(), stored["feats"].tolist()
        columns = [i for i, feature in enumerate(features) if feature.startswith(prefix)]
        rows = [i for i, code in enumerate(codes) if code in known]
        data = stored["data"][rows][:, columns, 0].astype(float)
    return {codes[row]: vector for row, vector in zip(rows, data, strict=True)}


@cache
def _uriel_plus(name: str, source: str, target: str) -> float:
    """The genetic distance alone takes ten times as long as the five others together."""
    with _quiet():
        try:
            return float(_urielplus().new_distance(name, [source, target]))
        except (ValueError, IndexError, SystemExit):
            return float("nan")


@cache
def _urielplus() -> Any:
    try:
        from urielplus import urielplus
    except ImportError as error:
        raise MissingExtra("urielplus", "lang", "The distance between languages") from error
    return urielplus.URIELPlus()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep urielplus from setting up the root logger and from reporting the time of each step."""
    root, before = logging.getLogger(), logging.root.manager.disable
    handlers, level = list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
        root.handlers[:] = handlers
        root.setLevel(level)
