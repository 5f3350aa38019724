"""The bundled general texts: many languages, domains and lengths, and where they come from."""

from collections import Counter

import pytest

from deadhead.guard import LENGTHS, PACK, draw, readable, rows


class Letters:
    """A tokenizer which reads Latin words whole, other letters one by one, and not all of them."""

    unk_token_id = 0

    def __init__(self, unknown=""):
        self.unknown = unknown

    def __call__(self, texts, **_):
        return {"input_ids": [[p for w in text.split() for p in self.word(w)] for text in texts]}

    def word(self, word):
        if set(word) & set(self.unknown):
            return [0]
        return [1] if word < "\u0250" else [2] * len(word)


def test_the_pack_is_small_and_broad():
    assert PACK.stat().st_size < 1e6
    languages = Counter(row.language for row in rows())
    assert len(languages) >= 9
    assert 0.55 < languages["en"] / len(rows()) < 0.75
    assert len({row.domain for row in rows()}) >= 8
    for language in languages:
        assert {row.length for row in rows() if row.language == language} == set(LENGTHS)
    assert len({row.text for row in rows()}) == len(rows())


def test_the_list_of_sources_names_every_source_and_counts_its_texts():
    page = PACK.with_name("SOURCES.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    listed = {cell[0]: int(cell[-1].strip(" |")) for cell in cells[1:]}
    assert listed == Counter(row.source for row in rows())


def test_a_draw_is_the_same_for_a_seed_and_has_no_text_twice():
    tokenizer = Letters()
    drawn = draw(100, tokenizer, seed=3)
    assert drawn == draw(100, tokenizer, seed=3)
    assert drawn != draw(100, tokenizer, seed=4)
    assert len(set(drawn)) == 100
    languages = readable(tokenizer)
    assert len(draw(100_000, tokenizer)) == sum(r.language in languages for r in rows())


@pytest.mark.parametrize(("unknown", "left_out"), [("", {"ru", "ar"}), ("äöß", {"ru", "ar", "de"})])
def test_languages_that_a_tokenizer_cannot_read_are_left_out(unknown, left_out):
    languages = readable(Letters(unknown))
    assert not left_out & set(languages)
    assert {"en", "es", "fr"} <= set(languages)
    assert ("de" in languages) == ("de" not in left_out)
