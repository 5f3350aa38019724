"""Whatever scheme a corpus writes, the same spans come out as BIO."""

from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from deadhead.tasks.reading.tags import NER_TYPES, has_no_prefixes, split_tag, to_bio

Span = tuple[str, int, int]


@st.composite
def sentences(draw):
    """A length, and spans that do not overlap."""
    result, at = [], 0
    for kind, gap, size in draw(
        st.lists(
            st.tuples(st.sampled_from(["PER", "LOC", "GPE"]), st.integers(0, 2), st.integers(1, 4)),
            max_size=6,
        )
    ):
        result.append((kind, at + gap, at + gap + size - 1))
        at += gap + size
    return at + draw(st.integers(0, 2)) + (at == 0), result


def write(length, result, scheme):
    tags = ["O"] * length
    for kind, first, last in result:
        touching = any(k == kind and end == first - 1 for k, _, end in result)
        for i in range(first, last + 1):
            letter = "B" if i == first else "I"
            if scheme == "IOB1":
                letter = "B" if i == first and touching else "I"
            if scheme == "BIOES":
                letter = "S" if first == last else "B" if i == first else "E" if i == last else "I"
            if scheme == "BILOU":
                letter = "U" if first == last else "B" if i == first else "L" if i == last else "I"
            tags[i] = f"{letter}-{kind}"
    return tags


@given(sentences(), st.sampled_from(["IOB1", "IOB2", "BIOES", "BILOU"]))
def test_every_scheme_gives_the_same_bio(sentence, scheme):
    length, result = sentence
    bio, _ = to_bio(write(length, result, scheme))
    assert list(bio) == write(length, result, "IOB2")
    assert get_entities(list(bio)) == result


def test_the_schemes_do_differ():
    assert (
        len(
            {
                tuple(write(3, [("PER", 0, 1), ("PER", 2, 2)], scheme))
                for scheme in ("IOB1", "IOB2", "BIOES", "BILOU")
            }
        )
        == 4
    )


def test_neighbours_that_become_one_type_stay_two():
    assert to_bio(["B-GPE", "I-LOC", "I-LOC"], NER_TYPES) == (("B-LOC", "B-LOC", "I-LOC"), 1)


def test_types_not_in_the_table_are_misc():
    assert to_bio(["B-event", "I-event", "O", "B-pers"], NER_TYPES)[0] == (
        "B-MISC",
        "I-MISC",
        "O",
        "B-PER",
    )
    assert set(NER_TYPES.values()) == {"PER", "ORG", "LOC"}


def test_tags_without_prefixes_are_runs_and_other_is_outside():
    tags = ["Person", "Person", "Other", "Location", "Person"]
    assert has_no_prefixes(tags)
    assert to_bio(tags, NER_TYPES, unprefixed=True)[0] == ("B-PER", "I-PER", "O", "B-LOC", "B-PER")
    assert not has_no_prefixes(["O", "B-PER"])
    assert not has_no_prefixes(["O", "O"])


def test_hebrew_news_writes_an_underscore():
    assert split_tag("I_PERS") == ("I", "PERS")
    assert to_bio(["I_PERS", "I_PERS", "O", "I_MISC__AFF"], NER_TYPES)[0] == (
        "B-PER",
        "I-PER",
        "O",
        "B-MISC",
    )
