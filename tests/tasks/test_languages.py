"""What the papers say of languages, row by row."""

import pytest

from deadhead.errors import UnknownName
from deadhead.tasks import TASKS, group, language, paper_languages
from deadhead.tasks.languages import code_of, facts


def test_word_order_and_resources_are_those_of_the_mbert_paper():
    assert group("word_order", "mbert-prunability") == {
        "SVO": ("en", "es", "de", "vi", "zh"),
        "SOV": ("hi", "el", "ur"),
        "VSO": ("ar",),
        "Agglutinative": ("tr", "sw"),
    }
    assert group("resource") == {
        "high": ("en", "es", "de"),
        "medium": ("vi", "zh", "ar", "tr"),
        "low": ("hi", "el", "ur", "sw"),
    }


def test_families_are_those_of_the_contributions_paper():
    assert group("family", "contributions") == {
        "IE, Germanic": ("en", "de", "nl"),
        "Afro-Asiatic, Semitic": ("ar", "he"),
        "Sino-Tibetan": ("zh",),
        "Japanese": ("ja",),
        "IE, Indic": ("ur",),
        "IE, Iranian": ("fa",),
    }


def test_the_papers_languages_are_in_the_tasks():
    assert paper_languages("mbert-prunability") == TASKS["xnli"].languages[:11]
    assert set(paper_languages("contributions", "UD_")) == set(TASKS["pos"].languages)
    assert set(paper_languages("contributions", "MultiATIS")) == set(TASKS["slots"].languages)
    assert len(facts()) - sum(not row["paper"] for row in facts()) == 38


def test_a_language_has_many_names():
    assert language("German") == language("de") == language("deu")
    assert language("ar") == ("ar", "arb", "Arabic", "VSO", "medium", "Afro-Asiatic, Semitic")
    assert code_of("zho") == "zh"
    assert code_of("klingon") is None
    with pytest.raises(UnknownName, match="no language 'xx'"):
        language("xx")
    with pytest.raises(UnknownName, match="Did you mean 'family'"):
        group("familiy")
    with pytest.raises(UnknownName, match="no paper"):
        paper_languages("other")
