"""How far apart two languages are by URIEL, from the vectors of the package lang2vec.

What no source says about a language is predicted from its nearest neighbours (knn), so every
distance is known for every pair. Syntactic, phonological, inventory and featural (all three
together) are cosine distances of these, genetic is that of the branches of the family tree, and
geographic is the great-circle distance in shares of half the way round the earth.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from deadhead.errors import MissingExtra, unknown_name

from .languages import language, languages

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
DISTANCES = tuple(FILES)


def distances(source: str, target: str, names: Sequence[str] = DISTANCES) -> dict[str, float]:
    """Return the distances between two languages, from 0 (equal) to 1."""
    for name in names:
        if name not in DISTANCES:
            raise unknown_name("distance between languages", name, DISTANCES)
    pair = sorted([language(source).iso639_3, language(target).iso639_3])
    if pair[0] == pair[1]:
        return dict.fromkeys(names, 0.0)
    return {name: _distance(name, *pair) for name in names}


@cache
def _distance(name: str, source: str, target: str) -> float:
    import numpy as np

    a, b = (_vectors(*FILES[name])[code] for code in (source, target))
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
