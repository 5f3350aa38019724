"""Distances between languages: URIEL's vectors of lang2vec, as in the paper."""

import itertools
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

from deadhead.errors import MissingExtra, UnknownName
from deadhead.tasks import distances, paper_languages
from deadhead.tasks.distances import DISTANCES, _distance, _vectors

# 1 - cosine over what lang2vec's own get_features gives for
# syntax_knn, phonology_knn, inventory_knn, all three, and fam
LANG2VEC = {
    ("en", "de"): (0.0975, 0.1942, 0.2372, 0.1808, 0.4557),
    ("en", "ja"): (0.4998, 0.3326, 0.3461, 0.4123, 1.0),
    ("en", "nl"): (0.0757, 0.1818, 0.2777, 0.1923, 0.5556),
    ("en", "fr"): (0.1882, 0.2474, 0.2591, 0.2320, 0.9038),
}
NAMES = ("syntactic", "phonological", "inventory", "featural", "genetic")


def test_distances():
    near, far = distances("en", "de"), distances("en", "ja")
    assert tuple(near) == DISTANCES
    assert all(0 <= value <= 1 for value in (*near.values(), *far.values()))
    assert all(near[name] < far[name] for name in DISTANCES)
    assert distances("de", "en") == near
    assert set(distances("en", "en").values()) == {0.0}


@pytest.mark.parametrize("pair", LANG2VEC)
def test_uriel_is_the_cosine_distance_of_the_knn_vectors(pair):
    result = distances(*pair, NAMES)
    assert list(result.values()) == pytest.approx(LANG2VEC[pair], abs=1e-4)


def test_every_pair_of_the_paper_is_known():
    """The 24 pairs: from English, Chinese and Arabic to the eight others."""
    codes = paper_languages("contributions")
    pairs = [pair for pair in itertools.product(("en", "zh", "ar"), codes) if pair[0] != pair[1]]
    assert not any(np.isnan(value) for pair in pairs for value in distances(*pair).values())


def test_the_geographic_distance_is_that_on_the_globe():
    """London to Tokyo is some 9,560 km of the 20,015 half way round; London to Amsterdam 360 km."""
    assert distances("en", "ja")["geographic"] == pytest.approx(9560 / 20015, abs=0.03)
    assert distances("en", "nl")["geographic"] == pytest.approx(360 / 20015, abs=0.01)


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="syntactic"):
        distances("en", "de", ["syntax"])


def not_installed(name):
    raise metadata.PackageNotFoundError(name)


def test_without_its_package_the_install_line_is_given(monkeypatch):
    _vectors.cache_clear()
    _distance.cache_clear()
    monkeypatch.setattr(metadata, "distribution", not_installed)
    with pytest.raises(MissingExtra, match=r'pip install .*\[lang\]"'):
        distances("en", "de")


def test_lang2vec_s_own_script_does_not_hide_its_package(tmp_path):
    """pip puts lang2vec.py beside the command `deadhead`, whose folder Python searches first."""
    (tmp_path / "lang2vec.py").write_text("", encoding="utf-8")
    command = tmp_path / "command.py"
    lines = ("from deadhead.tasks import distances", 'print(distances("en", "de", ["syntactic"]))')
    command.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run([sys.executable, command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("{'syntactic': 0.097"), done.stderr
