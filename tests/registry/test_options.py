"""One check of options: names, types, words and bounds, and what a refusal says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from deadhead.errors import UnknownName
from deadhead.registry.options import (
    Bound,
    Checked,
    Count,
    OptionError,
    Share,
    check,
    options_of,
    problems,
)

Numbers = Annotated[Sequence[float], Bound(len, "a list of numbers")]


@dataclass(frozen=True)
class Part(Checked):
    steps: Count = 3
    share: Share = 0.5
    rate: float | Numbers = 0.1
    unit: Literal["token", "sentence"] = "token"
    scaled: bool = False
    most: Count | None = None


def function(layout, *, seed: int | str = 0, first: Literal[0, 1] = 1): ...


GOOD = [{"steps": 1}, {"share": 0}, {"rate": [1, 2.5]}, {"unit": "sentence"}, {"most": None}]
BAD = [
    ({"steps": 0}, "`steps` of part expects a whole number from 1, got 0."),
    ({"steps": 2.0}, "`steps` of part expects a whole number from 1, got 2.0."),
    ({"steps": True}, "`steps` of part expects a whole number from 1, got True."),
    ({"share": 1}, "`share` of part expects a number from 0 to below 1, got 1."),
    ({"rate": "x"}, "`rate` of part expects a number or a list of numbers, got 'x'."),
    ({"rate": []}, "`rate` of part expects a number or a list of numbers, got []."),
    ({"rate": ["x"]}, "`rate` of part expects a number or a list of numbers, got ['x']."),
    (
        {"unit": "tokn"},
        "`unit` of part expects token or sentence, got 'tokn'. Did you mean 'token'?",
    ),
    ({"scaled": 1}, "`scaled` of part expects true or false, got 1."),
    ({"most": 0}, "`most` of part expects a whole number from 1 or null, got 0."),
]


@pytest.mark.parametrize("options", GOOD)
def test_good_options_are_accepted(options):
    check("part", Part, options)
    Part(**options)


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_refused_with_the_same_words_everywhere(options, message):
    for call in (lambda: check("part", Part, options), lambda: Part(**options)):
        with pytest.raises(OptionError) as refusal:
            call()
        assert refusal.value.message == message


def test_names_are_checked_and_all_problems_are_listed():
    with pytest.raises(UnknownName, match=r"no option of part 'step'\. Did you mean 'steps'"):
        check("part", Part, {"step": 1})
    assert [name for name, _ in problems("part", Part, {"steps": 0, "x": 1, "share": 0.1})] == [
        "steps",
        "x",
    ]


def test_the_options_of_a_function_are_its_keywords():
    assert list(options_of(function)) == ["seed", "first"]
    check("function", function, {"seed": "a", "first": 0})
    with pytest.raises(OptionError, match="`first` of function expects 0 or 1, got True"):
        check("function", function, {"first": True})
    hidden = [name for name, _ in problems("function", function, {"seed": 1}, ("seed",))]
    assert hidden == ["seed"]  # a hidden option is an unknown one
