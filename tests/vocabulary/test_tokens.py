"""Trimmed tokenizers of every kind encode texts of their tokens as before, and others too."""

import json

import pytest
import transformers
from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import Whitespace
from trained_tokenizers import MAKERS, TEXTS, sentences, trained

from deadhead.errors import UnsupportedModel
from deadhead.vocabulary.tokens import Tokens, check_same

ENGLISH, GERMAN = sentences("en"), sentences("de")
OTHERS = ["Çe 北京 😀", "redredred\n\n car", " A  dog "]


def trim(tokenizer, texts):
    tokens = Tokens(tokenizer)
    encoded = tokens.encoded(texts)
    used = {n for ids in encoded for n in ids} | tokens.hidden(texts, encoded)
    kept = sorted(tokens.needed(used))
    return tokens.trimmed(kept), kept


@pytest.mark.parametrize("kind", MAKERS)
def test_texts_of_kept_tokens_are_encoded_as_before(kind, tmp_path):
    whole = trained(kind)
    small, kept = trim(whole, ENGLISH[:50])
    assert len(small) == len(kept) < len(whole)
    small.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} <= {"tokenizer.json", "tokenizer_config.json"}
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(read) is type(whole)
    special = whole.all_special_tokens
    assert read.all_special_tokens == special
    assert [kept[n] for n in read.all_special_ids] == whole.all_special_ids
    inside = changed = 0
    for text in (*TEXTS, *OTHERS):
        for pair in ((text,), (text, "A dog")):
            old, new = whole(*pair), read(*pair)
            same = [kept[n] for n in new["input_ids"]] == old["input_ids"]
            if {*kept}.issuperset(old["input_ids"]) and whole.unk_token_id not in old["input_ids"]:
                inside += 1
                assert same, text
                assert new.get("token_type_ids") == old.get("token_type_ids")
                assert read.decode(new["input_ids"]) == whole.decode(old["input_ids"])
            changed += not same
        if kind in ("roberta", "gpt2", "qwen2"):  # bytes: every text can be written
            assert read.decode(read(text)["input_ids"], skip_special_tokens=True) == text
    assert inside >= 100
    assert changed >= 50  # so the comparison can fail
    assert kept == sorted(kept)


def test_a_missing_merge_is_noticed():
    tokens = Tokens(trained("gpt2"))
    texts = ENGLISH[:50]
    encoded = tokens.encoded(texts)
    used = {n for ids in encoded for n in ids}
    check_same(tokens, tokens.trimmed(sorted(tokens.needed(used))), texts, encoded)
    longest = max(used, key=lambda n: len(tokens.names[n]))
    part = tokens.merges_of(tokens.names[longest])[-2]
    damaged = sorted(tokens.needed(used) - {tokens.ids[part]})
    with pytest.raises(UnsupportedModel, match="would encode"):
        check_same(tokens, tokens.trimmed(damaged), texts, encoded)


def hand_made(model):
    built = Tokenizer(model)
    built.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=built, unk_token="[UNK]")


def test_of_several_merges_only_those_are_kept_that_build_a_token():
    words = ["[UNK]", "a", "b", "c", "d", "ab", "bc", "cd", "abc", "abcd", "bcd"]
    merges = [("b", "c"), ("a", "b"), ("c", "d"), ("a", "bc"), ("ab", "c"), ("abc", "d")]
    ids = {word: number for number, word in enumerate(words)}
    whole = hand_made(models.BPE(ids, [*merges, ("bc", "d")], unk_token="[UNK]"))
    small, _ = trim(whole, ["abcd"])
    model = json.loads(small.backend_tokenizer.to_str())["model"]
    # no `ab`: the merge of b and c comes first
    assert [*model["vocab"]] == ["[UNK]", "a", "b", "c", "d", "bc", "abc", "abcd"]
    assert model["merges"] == [["b", "c"], ["a", "bc"], ["abc", "d"]]
    assert small.tokenize("abcd abc ab cd") == ["abcd", "abc", "a", "b", "c", "d"]


def test_an_unknown_word_stays_unknown():
    words = ["[UNK]", "a", "ab", "abc", "##cd", "##b", "##c"]
    ids = {word: number for number, word in enumerate(words)}
    whole = hand_made(models.WordPiece(ids, unk_token="[UNK]"))
    texts = ["abcd", "ab", "a cd", "acd"]
    assert whole.tokenize("abcd") == ["[UNK]"]
    small, kept = trim(whole, texts)
    assert 3 in kept  # `abc`, which hides the way over `ab` and `##cd`
    assert [small.tokenize(text) for text in texts] == [whole.tokenize(text) for text in texts]
    tokens = Tokens(whole)
    without = tokens.trimmed([n for n in kept if n != 3])
    assert without.tokenize("abcd") == ["ab", "##cd"]


def test_the_lowest_score_stays():
    """The score of an unknown character depends on it."""
    pieces = [("[UNK]", 0.0), ("a", -1.0), ("ab", -2.0), ("c", -30.0), ("zz", -40.0)]
    whole = hand_made(models.Unigram(pieces, unk_id=0))
    small, kept = trim(whole, ["a ab"])
    assert kept == [0, 1, 2, 4]
    assert json.loads(small.backend_tokenizer.to_str())["model"]["unk_id"] == 0


def test_texts_are_not_cut():
    whole = trained("wordpiece")
    cut = Tokens(whole).tokenizer.backend_tokenizer
    cut.enable_truncation(2)
    cut.enable_padding(length=64)
    try:
        small, _ = trim(whole, ENGLISH[:50])
    finally:
        cut.no_truncation()
        cut.no_padding()
    assert len(small) == len(trim(whole, ENGLISH[:50])[0])


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(UnsupportedModel, match="expected a fast tokenizer") as error:
        Tokens(transformers.CanineTokenizer())
    assert "tokenizer.json" in error.value.hint
