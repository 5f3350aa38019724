"""Only plain data is read from a recipe, and no text and no data breaks its check."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipe_text import TABLE4, refusal

from deadhead.studies import Recipe
from deadhead.studies.recipe.check import check
from deadhead.studies.recipe.overrides import put
from deadhead.studies.recipe.yaml import RecipeError, read
from deadhead.studies.step import fields


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object/apply:os.system [ls]", "not plain data"),
        ("a: !!python/name:os.system", "not plain data"),
        ("a: !f x", "not plain data"),
        ("a: &x [1]\nb: *x", "repeats an anchor"),
        ("a: 1\na: 2", "2: a is given twice"),
        ("a: [1", "not YAML"),
        ("a: {<<: {b: 1}}", "merges"),
        ("? [1, 2]\n: 3", "plain name"),
        ("[" * 3000, "not YAML|nested"),
        ("- 1", "a recipe is a mapping"),
        ("a: " + "x" * 1_000_001, "at most"),
    ],
)
def test_only_plain_data_is_read(tmp_path, text, message):
    import re

    assert re.search(message, refusal(tmp_path / "r.yaml", text))


def test_scalars():
    read_ = read('[1, no, 5e-5, 1:30, 2020-01-01, "3", yes, ~, true, 010]', "x").data
    assert read_ == [1, "no", 5e-5, "1:30", "2020-01-01", "3", "yes", None, True, 10]


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    with suppress(RecipeError):
        read(text, "x")


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 200)
    | st.floats()
    | st.sampled_from(["none", "en", "1..3", "pos", "lrp", "x", "9" * 40]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["random", "lowest", "method", "epochs", "preset", "parts"]), inner
        )
    ),
    max_leaves=4,
)
PLACES = (
    "steps",
    "fixed",
    "axes",
    "search",
    "tables",
    "claims",
    "about",
    *fields(),
    "axes.seed",
    "axes.remove",
    "axes.finetune.rate",
    "tables.0.rows",
)


@given(st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=3))
def test_no_data_breaks_the_check(changes):
    """Whatever stands in a recipe, it is refused with a RecipeError or it has trials."""
    result = read(TABLE4, "x")
    result.data.pop("scales")
    with suppress(RecipeError):
        for place, value in changes:
            put(result, place.split("."), value, place, None)
        check(result, Path("."))
        assert [trial.id for trial in Recipe(name="x", data=result.data).trials]
