"""Correlations of gains, from small searches and rankings."""

import pytest
from example_scores import MBERT
from example_searches import ranked, search

from deadhead.papers.claims import UNSHOWN, all_claims
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.contributions import claims_heads

CLAIMS = all_claims()

LANGUAGES = ("de", "nl", "fa", "ur", "he", "ar")


def like_english(language, moved):
    """A ranking of eight heads, the first `moved` reversed: the more, the less like English."""
    return ranked(language, [*range(moved - 1, -1, -1), *range(moved, 8)])


def evidence(gains):
    rankings = [like_english(name, n) for n, name in enumerate(("en", *LANGUAGES), 1)]
    return Evidence(
        searches=tuple(search(gain, target=t) for gain, t in zip(gains, LANGUAGES, strict=True)),
        rankings=tuple(rankings),
    )


def far(source, target, names):
    assert (source, names) == ("en", ["syntactic"])
    return {"syntactic": [0.3, 0.1, 0.2, 0.6, 0.5, 0.4][LANGUAGES.index(target)]}


def test_against_likeness_and_distance(monkeypatch):
    monkeypatch.setattr(claims_heads, "distances", far)
    rhos = {r.against: r for r in claims_heads.rhos(evidence([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]))}
    similarity, distance = rhos["ranking similarity"], rhos["uriel distance"]
    assert (similarity.rho, similarity.pairs) == (
        pytest.approx(1),
        6,
    )  # the more alike, the more is gained
    assert similarity.p == pytest.approx(2 / 720)  # two of 6! orders are as clear
    assert distance.rho == pytest.approx(
        1 - 6 * sum(d * d for d in (3 - 6, 1 - 5, 2 - 4, 6 - 3, 5 - 2, 4 - 1)) / (6 * 35)
    )
    assert (similarity.task, similarity.setting, similarity.model) == (
        "pos",
        "cross-lingual",
        MBERT,
    )


def test_without_rankings_there_is_nothing_to_go_by():
    assert claims_heads.rhos(Evidence(searches=evidence([1.0, 2, 3, 4, 5, 6]).searches)) == ()


def test_without_distances_there_is_still_likeness(monkeypatch):
    from deadhead.errors import MissingExtra

    def not_installed(source, target, names):
        raise MissingExtra("urielplus", "lang", "a distance")

    monkeypatch.setattr(claims_heads, "distances", not_installed)
    whole = evidence([1.0, 2.0, 3.0, 4.0, 6.0, 5.0])
    assert [r.against for r in claims_heads.rhos(whole)] == ["ranking similarity"]
    verdict = CLAIMS["C-p-POS"].on(whole)
    assert (verdict.verdict, verdict.strength) == (
        UNSHOWN,
        "of other pairs, p is another; n = 6 pairs",
    )  # exact: p = 0.017
    assert verdict.numbers == f"on {MBERT}: 0 of 1: rho -0.94 p 0.017"
