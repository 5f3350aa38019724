"""The joint vocabulary: any text comes back, the same texts give the same pieces."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_pair import pairs

from deadhead.errors import DataError
from deadhead.translation import vocabulary

TEXTS = [text for pair in pairs(200, 0) for text in pair]


@pytest.fixture(scope="module")
def built():
    return vocabulary(TEXTS, 320)


@given(
    st.text(st.characters(exclude_categories=["Cs"])).filter(
        lambda text: "</s>" not in text and "<pad>" not in text
    )
)
def test_any_text_comes_back(built, text):
    ids = built(text)["input_ids"]
    assert ids[-1] == built.eos_token_id
    assert built.decode(ids, skip_special_tokens=True) == text.removeprefix(" ")


def test_both_languages_share_it(built):
    assert (built.pad_token_id, built.eos_token_id, len(built)) == (0, 1, 320)
    assert (
        len(built("cat")["input_ids"]) == len(built(text_target="Hund")["input_ids"]) == 2
    )  # a piece and the end
    assert len(built("zebra")["input_ids"]) > 3


def test_the_same_texts_give_the_same_vocabulary(built):
    code = "from toy_pair import pairs\nfrom deadhead.translation import vocabulary\n"
    code += (
        "print(vocabulary([text for pair in pairs(200, 0) for text in pair], "
        "320).backend_tokenizer.to_str())"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONHASHSEED": "77",
        "RAYON_NUM_THREADS": "1",
    }
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout
    assert other.strip() == built.backend_tokenizer.to_str()
    assert (
        vocabulary(TEXTS[:50], 320).backend_tokenizer.to_str() != built.backend_tokenizer.to_str()
    )


def test_its_size_is_a_limit():
    assert len(vocabulary(["a bc def"], 5000)) == 258  # nothing comes twice
    with pytest.raises(DataError, match="no room for words"):
        vocabulary(TEXTS, 200)
