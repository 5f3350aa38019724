"""Models with fewer tokens: equal hidden states, and logits of the tokens that are left."""

import copy
import json
from types import SimpleNamespace

import pytest
import torch
import transformers
from tokenizers.processors import TemplateProcessing
from trained_tokenizers import sentences, trained

from deadhead import load, prune, save, trim_vocabulary
from deadhead.errors import DataError, UnsupportedModel
from tiny_models import build_class

ENGLISH = sentences("en")[:60]
# tokenizer, class, settings
MODELS = {
    "tied encoder": ("wordpiece", "BertForMaskedLM", {}),
    "encoder without output": ("wordpiece", "DistilBertModel", {}),
    "tagger": ("wordpiece", "BertForTokenClassification", {}),
    "positions from padding": ("roberta", "RobertaForMaskedLM", {}),
    "untied decoder": ("llama", "LlamaForCausalLM", {"tie_word_embeddings": False}),
    "tied decoder": ("qwen2", "Qwen2ForCausalLM", {"tie_word_embeddings": True}),
    "output bias": ("gpt2", "GPTJForCausalLM", {}),
    "bias of final logits": ("roberta", "BartForConditionalGeneration", {}),
    "encoder-decoder": ("t5", "T5ForConditionalGeneration", {"tie_word_embeddings": False}),
}


def built(name, **more):
    """A model, with its tokenizer. It has more rows than tokens, as models often do."""
    kind, model_class, settings = MODELS[name]
    tokenizer = trained(kind)
    names = ("pad", "bos", "eos")
    ids = {f"{n}_token_id": getattr(tokenizer, f"{n}_token_id", None) for n in names}
    size = {"vocab_size": len(tokenizer) + 9, "decoder_start_token_id": 0}
    settings = {**size, **ids, **settings, **more}
    return build_class(getattr(transformers, model_class), **settings), tokenizer


@torch.no_grad()
def outputs(model, tokenizer, texts=ENGLISH[:4]):
    """The last hidden states, and the logits or None."""
    filled = {} if tokenizer.pad_token is None else {"padding": True}
    batch = dict(tokenizer(list(texts if filled else texts[:1]), return_tensors="pt", **filled))
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = batch["input_ids"]
    batch.pop("token_type_ids", None)
    result = model(**batch, output_hidden_states=True)
    hidden = result.get("hidden_states", result.get("decoder_hidden_states"))[-1]
    return hidden, result.get("logits")


def check_equal(whole, tokenizer, small, trimmed):
    hidden, logits = outputs(whole, tokenizer)
    new_hidden, new_logits = outputs(small, trimmed.tokenizer)
    assert torch.equal(hidden, new_hidden)
    if logits is not None and logits.shape != new_logits.shape:
        kept = torch.tensor(trimmed.kept)
        assert new_logits.shape[-1] == len(kept)
        torch.testing.assert_close(new_logits, logits[..., kept], rtol=0, atol=1e-9)
    elif logits is not None:  # logits of labels
        assert torch.equal(logits, new_logits)


@pytest.mark.parametrize("name", MODELS)
def test_the_remaining_tokens_have_their_logits(name, tmp_path):
    whole, tokenizer = built(name)
    with torch.no_grad():
        for key, tensor in whole.state_dict().items():
            if key.endswith(("bias", "final_logits_bias")):  # else zeros, which are all alike
                tensor.copy_(torch.randn_like(tensor))
    small = copy.deepcopy(whole)
    trimmed = trim_vocabulary(small, tokenizer, ENGLISH)
    size = len(trimmed.kept)
    assert trimmed.tokens == (len(tokenizer) + 9, size)
    assert size < len(tokenizer)
    check_equal(whole, tokenizer, small, trimmed)
    assert not any(trimmed.tokens[0] in t.shape for t in small.state_dict().values())
    config = small.config.get_text_config()
    assert config.vocab_size == size
    assert config.pad_token_id == trimmed.tokenizer.pad_token_id
    # everything else is as the class builds it
    for module in small.modules():
        if isinstance(module, torch.nn.Embedding):
            assert module.num_embeddings == len(module.weight)
    save(small, tmp_path / "deadhead", trimmed.tokenizer)
    ordinary = type(small).from_pretrained(tmp_path / "deadhead", dtype=torch.float64).eval()
    for read in (load(tmp_path / "deadhead").eval(), ordinary):
        check_equal(whole, tokenizer, read, trimmed)
    # tied weights stay one
    assert dict(ordinary.named_parameters()).keys() == dict(small.named_parameters()).keys()


@pytest.mark.parametrize("name", ["tied encoder", "untied decoder", "bias of final logits"])
def test_before_and_after_heads_are_removed(name, tmp_path):
    whole, tokenizer = built(name)
    first = copy.deepcopy(whole)
    block = "decoder" if name == "untied decoder" else "encoder"
    heads = [f"{block}.1.{head}" for head in ((0, 1) if block == "encoder" else (0, 1, 2, 3))]
    whole_pruned = prune(copy.deepcopy(whole), heads[:2])
    trimmed = trim_vocabulary(first, tokenizer, ENGLISH)
    save(first, tmp_path / "trimmed", trimmed.tokenizer)
    first = load(tmp_path / "trimmed").eval()
    prune(first, heads[:2])
    save(whole_pruned, tmp_path / "pruned", tokenizer)
    second = load(tmp_path / "pruned").eval()
    again = trim_vocabulary(second, tokenizer, ENGLISH)
    for model, folder in ((first, "first"), (second, "second")):
        check_equal(whole_pruned, tokenizer, model, again)
        save(model, tmp_path / folder, again.tokenizer)
        check_equal(whole_pruned, tokenizer, load(tmp_path / folder).eval(), again)
    twice = trim_vocabulary(load(tmp_path / "second"), again.tokenizer, ENGLISH)
    assert twice.tokens == (again.tokens[1], again.tokens[1])


def test_special_tokens_have_their_new_numbers_everywhere(tmp_path):
    model, tokenizer = built("bias of final logits")
    word = tokenizer.encode(ENGLISH[0], add_special_tokens=False)[1]
    model.config.task_specific_params = {"summarization": {"forced_bos_token_id": word}}
    generation = model.generation_config
    generation.eos_token_id = [tokenizer.eos_token_id, word]
    generation.suppress_tokens = [word, 450, 451]
    generation.bad_words_ids = [[word, tokenizer.eos_token_id], [word, 450]]
    trimmed = trim_vocabulary(model, tokenizer, ENGLISH[:2])
    assert 450 not in trimmed.kept
    new = {old: number for number, old in enumerate(trimmed.kept)}
    assert new[word] != word
    save(model, tmp_path, trimmed.tokenizer)
    stored = json.loads((tmp_path / "generation_config.json").read_text())
    end = new[tokenizer.eos_token_id]
    assert stored["eos_token_id"] == [end, new[word]]
    assert stored["suppress_tokens"] == [new[word]]
    assert stored["bad_words_ids"] == [[new[word], end]]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["task_specific_params"]["summarization"]["forced_bos_token_id"] == new[word]
    assert config["eos_token_id"] == end


def test_positions_are_counted_from_the_same_number():
    """RoBERTa's first position is the number of its padding token, whatever comes before that."""
    whole, tokenizer = built("positions from padding")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(20)
    whole = build_class(transformers.RobertaForMaskedLM, vocab_size=len(tokenizer), pad_token_id=20)
    small = copy.deepcopy(whole)
    trimmed = trim_vocabulary(small, tokenizer, ENGLISH)
    assert trimmed.tokenizer.pad_token_id == small.config.pad_token_id == 20
    check_equal(whole, tokenizer, small, trimmed)


def test_the_share_of_changed_texts_is_that_of_held_out_texts():
    _, tokenizer = built("tied encoder")
    texts = [*ENGLISH[:30], *sentences("de")[:10]]
    estimate = trim_vocabulary(built("tied encoder")[0], tokenizer, texts).changed
    held_out, others = texts[::10], [t for n, t in enumerate(texts) if n % 10]
    kept = trim_vocabulary(built("tied encoder")[0], tokenizer, others).kept
    changed = [not {*kept}.issuperset(tokenizer(text)["input_ids"]) for text in held_out]
    assert estimate == sum(changed) / len(held_out)
    assert 0 < sum(changed) < len(changed)
    assert trim_vocabulary(built("tied encoder")[0], tokenizer, texts[:9]).changed is None


def test_words_of_a_chat_template_and_further_texts_are_kept():
    model, tokenizer = built("tied decoder")
    tokenizer = copy.deepcopy(tokenizer)
    without_chat = trim_vocabulary(copy.deepcopy(model), tokenizer, ENGLISH[:1])
    further = trim_vocabulary(copy.deepcopy(model), tokenizer, ENGLISH[:1], always=ENGLISH[1:4])
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }} says in Deutschland {{ m.content }}{% endfor %}"
    )
    chat = trim_vocabulary(model, tokenizer, ENGLISH[:1])
    numbers = {*tokenizer("user says in Deutschland", add_special_tokens=False)["input_ids"]}
    assert numbers <= {*chat.kept}
    assert not numbers <= {*without_chat.kept}
    assert {n for text in ENGLISH[1:4] for n in tokenizer(text)["input_ids"]} <= {*further.kept}
    assert {*without_chat.kept} < {*further.kept}


def no_texts(model, tokenizer):
    return tokenizer, ["", " \n"]


def another_script(model, tokenizer):
    return tokenizer, ["北京 欢迎 你", "こんにちは 世界"]


def another_model(model, tokenizer):
    model.resize_token_embeddings(300)
    return tokenizer, ENGLISH


def a_smaller_tokenizer(model, tokenizer):
    model.resize_token_embeddings(4000)
    return tokenizer, ENGLISH


def a_slightly_smaller_tokenizer(model, tokenizer):
    """That of BERT for a model with 32,000 tokens."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(30_517))]
    model.resize_token_embeddings(32_000)
    return transformers.BertTokenizer(vocab={name: n for n, name in enumerate(names)}), ENGLISH


def a_word_as_special_token(model, tokenizer):
    model.config.sep_token_id = 450
    return tokenizer, ENGLISH


def copy_that_fits(model, tokenizer):
    """A tokenizer to add to, of a model that has no embedding for more."""
    model.resize_token_embeddings(len(tokenizer))
    return copy.deepcopy(tokenizer)


def a_role_without_an_embedding(model, tokenizer):
    tokenizer = copy_that_fits(model, tokenizer)
    tokenizer.add_special_tokens({"eos_token": "<|foo|>"})
    return tokenizer, ENGLISH


def an_unknown_special_token(model, tokenizer):
    model.config.sep_token_id = 503
    return tokenizer, ENGLISH


def a_special_token_without_an_embedding(model, tokenizer):
    tokenizer = copy_that_fits(model, tokenizer)
    backend = tokenizer.backend_tokenizer
    backend.add_special_tokens(["[NOSEP]"])
    backend.post_processor = TemplateProcessing("$0 [NOSEP]", None, [("[NOSEP]", 500)])
    return tokenizer, ENGLISH


def a_forced_token(model, tokenizer):
    model.generation_config = SimpleNamespace(sequence_bias=[[[5], 1.0]])
    return tokenizer, ENGLISH


def an_output_of_its_own(model, tokenizer):
    model.cls.predictions.bias = torch.nn.Parameter(torch.zeros(7))
    return tokenizer, ENGLISH


def two_vocabularies(model, tokenizer):
    model.config.decoder_vocab_size = 77
    return tokenizer, ENGLISH


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        (no_texts, DataError, "expected texts to keep the tokens of, got none"),
        (another_script, DataError, "does not know the texts: 100% of their tokens are unknown"),
        (another_model, DataError, "has 500 sub-words and the model knows 300"),
        (a_smaller_tokenizer, DataError, "has only 500 tokens and the model knows 4,000"),
        (a_slightly_smaller_tokenizer, DataError, "has only 30,522 tokens and the model knows 32"),
        (a_word_as_special_token, DataError, "config has sep_token_id = 450, which is the word"),
        (a_role_without_an_embedding, DataError, "'<|foo|>' with the number 500, and the model"),
        (an_unknown_special_token, DataError, "config has sep_token_id = 503, which is no token"),
        (a_special_token_without_an_embedding, DataError, "adds [NOSEP] to each text"),
        (a_forced_token, UnsupportedModel, "sequence_bias"),
        (an_output_of_its_own, UnsupportedModel, "cls.predictions.bias is not understood"),
        (two_vocabularies, UnsupportedModel, "got decoder_vocab_size = 77"),
    ],
)
def test_mistakes(mistake, kind, message):
    model, tokenizer = built("tied encoder")
    tokenizer, texts = mistake(model, tokenizer)
    config, weights = copy.deepcopy(model.config.to_dict()), copy.deepcopy(model.state_dict())
    with pytest.raises(kind) as error:
        trim_vocabulary(model, tokenizer, texts)
    assert message in error.value.message
    assert error.value.hint
    assert model.config.to_dict() == config
    assert all(torch.equal(t, weights[n]) for n, t in model.state_dict().items())


def test_the_share_of_unknown_tokens_is_told():
    model, tokenizer = built("tied encoder")
    assert trim_vocabulary(copy.deepcopy(model), tokenizer, ENGLISH).unknown == 0
    (text,) = ENGLISH[:1]
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    words = [t for t in tokenizer.convert_ids_to_tokens(tokens) if any(map(str.isalnum, t))]
    assert len(words) < len(tokens)  # punctuation does not count
    trimmed = trim_vocabulary(model, tokenizer, [f"{text} 東"])
    assert trimmed.unknown == pytest.approx(1 / (len(words) + 1))


@pytest.mark.parametrize("kind", ["wordpiece", "t5", "xlm-roberta"])
def test_texts_in_another_script_are_refused_despite_blanks_and_punctuation(kind):
    tokenizer = trained(kind)
    model = build_class(transformers.BertModel, vocab_size=len(tokenizer), pad_token_id=0)
    texts = ["הילדה קראה ספר , והלכה הביתה .", "הכלב ישן ."]
    with pytest.raises(DataError, match="100% of their tokens are unknown"):
        trim_vocabulary(model, tokenizer, texts)
    assert trim_vocabulary(model, tokenizer, [*ENGLISH, ". ."]).unknown == 0
