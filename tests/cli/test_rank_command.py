"""`deadhead rank` and `deadhead compare`, from a folder of data and a model to files and tables."""

import json
import shutil

import pytest
import torch
from command_line import output_of
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForTokenClassification,
    PreTrainedTokenizerFast,
)
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.errors import DataError, DeadheadError, HeadError, UnknownName
from deadhead.layout import HeadLayout
from deadhead.ranking import Ranking
from deadhead.tasks import draw_examples, load_data

WORDS = ["the", "dog", "sees", "a", "cat", "runs", "big", "."]
LABELS = ("O", "B-PER", "I-PER")


def run(*words):
    return output_of(*words).stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tagger, the same without a classifier, and sentences in two languages."""
    folder = tmp_path_factory.mktemp("rank")
    vocabulary = {name: i for i, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    built = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    built.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=built,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 20,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 16,
    }
    named = BertConfig(**sizes, initializer_range=0.5, id2label=dict(enumerate(LABELS)))
    for name, model in (
        ("tagger", BertForTokenClassification(named)),
        ("bare", BertForMaskedLM(BertConfig(**sizes))),
    ):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    draw = torch.Generator().manual_seed(0)
    (folder / "data" / "ner").mkdir(parents=True)
    for lang in ("en", "de"):
        lines = []
        for _ in range(12):
            length = int(torch.randint(2, 7, (1,), generator=draw))
            for number in torch.randint(0, len(WORDS), (length,), generator=draw).tolist():
                lines.append(f"{WORDS[number]}\t{'B-PER' if number == 1 else 'O'}")
            lines.append("")
        (folder / "data" / "ner" / f"{lang}-dev.iob2").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)


def ask(place, out, *more, model="tagger"):
    task = ("--task", "ner", "--lang", "en", "--data", place / "data", "--device", "cpu")
    return run("rank", place / model, *task, "--out", out, *more)


def test_rank_writes_a_ranking_and_shows_it(place, tmp_path):
    table = ask(place, tmp_path / "r.json", "--plot", tmp_path / "r.svg")
    ranking = Ranking.load(tmp_path / "r.json")
    assert len(ranking) == 8
    assert ranking.data["examples"] == 12
    assert [ranking.data[name] for name in ("task", "lang", "split")] == ["ner", "en", "dev"]
    assert str(ranking.lowest(1)[0]) in table
    assert str(ranking.highest(1)[0]) in table
    assert "lowest" in table
    assert (tmp_path / "r.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("method", ["ablation", "attribution"])
def test_closed_heads_are_filled(place, tmp_path, method):
    for fill in ("zero", "mean"):
        ask(place, tmp_path / fill, "--method", method, "--option", f"fill={fill}")
    zero, mean = (Ranking.load(tmp_path / fill) for fill in ("zero", "mean"))
    assert (zero.options["fill"], mean.options["fill"]) == ("zero", "mean")
    assert zero.scores != mean.scores
    with pytest.raises(DeadheadError, match=r"`fill` of .* expects zero or mean, got 'median'"):
        ask(place, tmp_path / "x", "--method", method, "--option", "fill=median")
    with pytest.raises(DeadheadError, match="option of taylor 'fill'") as error:
        ask(place, tmp_path / "x", "--option", "fill=mean")
    assert error.value.hint == "fill is an option of shapley, ablation, attribution"


def test_rank_as_json_with_options(place, tmp_path):
    options = ("--option", "unit=per_example", "--option", "normalize=true", "--max-examples", 5)
    printed = json.loads(ask(place, tmp_path / "r.json", "--json", *options))
    assert (printed["method"], printed["options"]["unit"]) == ("taylor", "per_example")
    assert printed["options"]["normalize"] is True
    assert printed["data"]["examples"] == 5
    assert printed["lowest"] == [str(h) for h in Ranking.load(tmp_path / "r.json").lowest(8)]


def test_same_question_same_answer_and_another_seed_other_sentences(place, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        ask(place, tmp_path / f"{name}.json", "--max-examples", 4, "--seed", seed)
    a, b, c = (Ranking.load(tmp_path / f"{name}.json") for name in "abc")
    assert a == b
    assert a.data["fingerprint"] != c.data["fingerprint"]
    assert a.data["notes"] == {"rows left out at random": 8}


def test_compare(place, tmp_path):
    ask(place, tmp_path / "en.json")
    ask(place, tmp_path / "flat.json", "--method", "ablation")
    files = [tmp_path / f"{name}.json" for name in ("en", "flat", "en")]
    printed = json.loads(run("compare", *files, "--heads", 2, "--json"))
    assert printed["spearman"][0][2] == pytest.approx(1)
    assert printed["spearman"][0][1] == printed["spearman"][1][0]
    assert [pair["overlap"]["m"] for pair in printed["pairs"]] == [2, 2, 2]
    table = run("compare", tmp_path / "en.json", tmp_path / "flat.json")
    assert "Spearman" in table
    assert "by chance" in table
    assert printed["methods"] == ["taylor", "ablation", "taylor"]
    assert "en / flat" in table
    assert "rankings are of different methods: taylor, ablation" in " ".join(table.split())


def test_compare_does_not_name_a_method_that_all_share(place, tmp_path):
    ask(place, tmp_path / "en.json")
    table = run("compare", tmp_path / "en.json", tmp_path / "en.json")
    assert "taylor" not in table
    assert "methods" not in table
    words = ["compare", *[str(tmp_path / "en.json")] * 2, "--heads", "9"]
    many = CliRunner().invoke(app, words)
    message = " ".join(many.output.replace("│", " ").split())
    assert "--heads: expects at most 8, the heads that the rankings share, got 9" in message


def test_compare_refuses_rankings_of_different_models(place, tmp_path):
    ask(place, tmp_path / "en.json")
    other = HeadLayout.grid(encoder=(6, 12))
    Ranking(
        scores={head: float(i) for i, head in enumerate(other)}, layout=other, method="gradient"
    ).save(tmp_path / "other.json")
    with pytest.raises(
        HeadError,
        match=r"(?s)en\.json has encoder 2 x 4, .*other\.json has encoder 6 x 12.*same layers",
    ):
        run("compare", tmp_path / "en.json", tmp_path / "other.json")
    fewer = Ranking.load(tmp_path / "en.json")
    Ranking(scores=fewer.scores, layout=fewer.layout, method="gradient", model="elsewhere").save(
        tmp_path / "elsewhere.json"
    )
    table = " ".join(run("compare", tmp_path / "en.json", tmp_path / "elsewhere.json").split())
    assert "These rankings are of different models: tagger, elsewhere." in table


def test_mistakes_cost_no_time(place, tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'unit'"):
        ask(place, tmp_path / "r.json", "--option", "unti=per_token", model="nowhere")
    with pytest.raises(UnknownName, match=r"no kind of plot file '\.foo'"):
        ask(place, tmp_path / "r.json", "--plot", "x.foo", model="nowhere")
    with pytest.raises(UnknownName, match="no device 'foo'"):
        ask(place, tmp_path / "r.json", "--device", "foo", model="nowhere")
    with pytest.raises(DeadheadError, match="there is no device 'cuda:99' here"):
        ask(place, tmp_path / "r.json", "--device", "cuda:99", model="nowhere")
    words = ["rank", "m", "--task", "ner", "--lang", "en", "--out", "r.json", "--option", "unit"]
    for wrong in (words, ["compare", "one.json"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    assert not (tmp_path / "r.json").exists()


def test_a_model_of_another_task_is_refused(place, tmp_path):
    with pytest.raises(DataError, match="BertForMaskedLM does not fit ner"):
        ask(place, tmp_path / "r.json", model="bare")


def relabelled(place, tmp_path, *labels):
    """The tagger, with other names for its classes."""
    shutil.copytree(place / "tagger", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    config |= {
        "id2label": dict(enumerate(labels)),
        "label2id": {name: i for i, name in enumerate(labels)},
    }
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    return tmp_path / "other"


def test_o_alone_is_no_common_label(place, tmp_path):
    with pytest.raises(
        DataError, match=r"the model's classes \(O, B-city, I-city\) are not the labels of ner"
    ):
        ask(place, tmp_path / "r.json", model=relabelled(place, tmp_path, "O", "B-city", "I-city"))


def test_labels_of_the_data_that_the_model_does_not_know(place, tmp_path):
    with pytest.raises(DataError, match="does not know 100% of the labels of this ner data: B-PER"):
        ask(place, tmp_path / "r.json", model=relabelled(place, tmp_path, "O", "B-LOC", "I-LOC"))


def test_a_few_unknown_labels_are_reported(place, tmp_path):
    (tmp_path / "ner").mkdir()
    (tmp_path / "ner" / "en-dev.iob2").write_text("dog\tB-PER\ncat\tB-LOC\nruns\tO\na\tO\n\n")
    task = ("--task", "ner", "--lang", "en", "--data", tmp_path, "--device", "cpu")
    words = (*task, "--out", tmp_path / "r.json")
    table = run("rank", place / "tagger", *words)
    assert "does not know 25.0% of the labels" in table
    data = Ranking.load(tmp_path / "r.json").data
    assert (data["unknown_labels"], data["notes"]) == (0.25, {"labels the model does not know": 1})


def test_split_and_left_out_data_is_reported(place, tmp_path):
    table = ask(place, tmp_path / "r.json", "--max-length", 5, "--batch-size", 4)
    data = Ranking.load(tmp_path / "r.json").data
    split = data["notes"]["sentences split"]
    assert split > 0
    assert (data["examples"], data["windows"]) == (12, 12 + split)
    assert 0 < data["padding"] < 1
    assert f"sentences split: {split}" in table
    assert f"12 examples in {12 + split} windows" in " ".join(table.split())
    assert "% padding" in " ".join(table.split())


def test_no_examples_are_refused():
    with pytest.raises(DataError, match="expected a number of examples from 1, got 0"):
        draw_examples(load_data("pos", "en", "dev", root="world"), 0)
