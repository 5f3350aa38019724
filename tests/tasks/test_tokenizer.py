"""A model folder without a tokenizer: what transformers makes up for it is never taken for one."""

import pytest
from transformers import (
    AutoTokenizer,
    BertConfig,
    DebertaV2Config,
    GPT2Config,
    MBartConfig,
    RobertaConfig,
    T5Config,
)

from deadhead.errors import DataError
from deadhead.tasks import encode, load_data
from deadhead.tasks.encoding.tokenizer import knows_words
from deadhead.world import MODELS


def test_the_empty_tokenizer_that_transformers_builds_is_refused(tmp_path):
    """Without a tokenizer, transformers gives one of special tokens: all words are the same."""
    BertConfig().save_pretrained(tmp_path)
    made_up = AutoTokenizer.from_pretrained(tmp_path)
    with pytest.raises(DataError, match=f"{tmp_path} has no tokenizer") as problem:
        encode(load_data("pos", "en", "dev", root="world"), made_up)
    assert "save_pretrained" in (problem.value.hint or "")


@pytest.mark.parametrize(
    "config",
    [T5Config(), MBartConfig(), DebertaV2Config(), RobertaConfig(), GPT2Config()],
    ids=lambda c: c.model_type,
)
def test_so_is_one_of_another_kind(config, tmp_path):
    config.save_pretrained(tmp_path)
    assert not knows_words(AutoTokenizer.from_pretrained(tmp_path))


def test_the_embedded_models_know_words():
    assert all(
        knows_words(AutoTokenizer.from_pretrained(MODELS / name)) for name in ("encoder", "seq2seq")
    )
