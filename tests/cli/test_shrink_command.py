"""`deadhead shrink`: from a saved tagger to a smaller one, and its errors."""

import gzip
import json

import pytest
import torch
from command_line import clean
from transformers import AutoModelForTokenClassification, AutoTokenizer

from deadhead import discover, load, save
from deadhead.guard import GuardText
from deadhead.tasks import encode, load_data
from deadhead.training import Settings, evaluate, finetune
from deadhead.world import MODELS

ENCODER = MODELS / "encoder"
DATA = ("--task", "pos", "--lang", "en", "--data", "world", "--device", "cpu")
SMALL = ("--examples", 60, "--on", "2x16")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("models"), AutoTokenizer.from_pretrained(ENCODER)
    data = load_data("pos", "en", "train", root="world", parts=1)
    names = dict(enumerate(data.labels))
    model = AutoModelForTokenClassification.from_pretrained(
        ENCODER, id2label=names, label2id={name: i for i, name in names.items()}
    )
    finetune(model, encode(data, tokenizer), Settings(rate=1e-3, epochs=1), progress=False)
    save(model.to(torch.bfloat16), folder / "tagger", tokenizer)
    return folder / "tagger"


def test_a_smaller_tagger(tagger, tmp_path, run_command):
    out = tmp_path / "smaller"
    how = ("--remove-heads", "50%", "--remove-neurons", "25%", "--out", out, "--json")
    done = run_command("shrink", tagger, *DATA, *SMALL, *how)
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["sizes"]["heads"] == [40, 20]
    assert facts["sizes"]["neurons"] == [1920, 1440]
    assert not any("heads alone" in note for note in facts["notes"])
    assert facts["model"] == str(tagger)
    assert (facts["options"]["heads"], facts["options"]["method"]) == ("50%", "auto")
    assert facts["shape"] == [2, 16]
    assert facts["dtype"] == "bfloat16"  # as its source
    assert (facts["metric"], facts["splits"]) == ("micro_f1", {"en": "dev"})
    assert set(facts["scores"]) == {"whole", "cut", "refitted"}
    small, tokenizer = load(out, dtype="float32"), AutoTokenizer.from_pretrained(out)
    layout = discover(small, neurons=True)
    assert len(layout) == 20
    assert sorted(map(str, layout.removed)) == sorted(facts["choice"]["heads"])
    data = load_data("pos", "en", "dev", root="world")
    sets = {"en": encode(data, tokenizer, labels=tuple(small.config.id2label.values()))}
    score = evaluate(small, sets, progress=False)["en"]["micro_f1"]
    assert score == pytest.approx(facts["scores"]["refitted"]["en"], abs=0.01)  # rounded weights


def test_the_table(tagger, tmp_path, run_command):
    options = ("--keep-macs", "60%", "--method", "random", "--compensation", "mean", "--seed", 3)
    done = run_command("shrink", tagger, *DATA, *SMALL, *options, "--out", tmp_path / "s")
    assert done.code == 0, done.err
    for text in ("micro_f1 en dev", "held-out loss", "multiply-accumulates", "ms for 2 x 16"):
        assert text in done.out
    assert "heads by random and neurons by random" in done.out
    assert "written to" in done.out
    assert done.err.count("--compensation is now --repair") == 1


def test_plain_text_without_labels(tagger, tmp_path, run_command, monkeypatch):
    """From a file and a folder, with general texts that the tagger's tokenizer can read."""
    texts = [" ".join(row.texts) for row in load_data("pos", "en", "dev", root="world").rows[:60]]
    (tmp_path / "more").mkdir()
    (tmp_path / "text.txt").write_text("\n".join(texts[:30]), encoding="utf-8")
    (tmp_path / "more" / "b.txt").write_text("\n".join(texts[30:40]), encoding="utf-8")
    packed = gzip.compress("\n".join(texts[40:]).encode())
    (tmp_path / "more" / "a.txt.gz").write_bytes(packed)
    general = [GuardText(text, "en", "news", "short", "here") for text in texts[:20]]
    monkeypatch.setattr("deadhead.guard.rows", lambda: general)
    options = ("--loss", "self", "--remove-heads", 10)
    where = ("--text", tmp_path / "text.txt", "--text", tmp_path / "more")
    words = ("shrink", tagger, *where, "--device", "cpu", "--on", "2x16")
    done = run_command(*words, *options, "--out", tmp_path / "s", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["loss"] == "self"
    assert any("heads alone save little time" in note for note in facts["notes"])
    assert facts["scores"] == {}
    assert len(discover(load(tmp_path / "s"))) == 30
    assert facts["facts"]["examples"] == sum(facts["examples"]) == 60
    assert facts["guard"] == [10, 10]
    assert " on general texts." in (tmp_path / "s" / "README.md").read_text(encoding="utf-8")
    assert {row["texts"] for row in facts["distances"]} == {"yours", "guard"}
    done = run_command(*words, *options, "--out", tmp_path / "n", "--no-guard")
    assert done.code == 0, done.err
    assert "guard, not fitted to: of up to" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*DATA,), "expected a target, got none"),
        ((*DATA, "--remove-heads", "most"), "`heads` expects a share of the heads"),
        ((*DATA, "--remove-heads", "50%", "--keep-macs", "50%"), "got heads and macs"),
        ((*DATA, "--remove-heads", "50%", "--on", "32"), "expects examples x tokens"),
        ((*DATA, "--remove-heads", "50%", "--method", "luck"), "no method of choosing 'luck'"),
        (("--remove-heads", "50%"), "give --task NAME"),
        ((*DATA, "--remove-heads", "50%", "--text", "README.md"), "give --text FILE alone"),
        ((*DATA, "--keep-parameters", "1%", *SMALL), "`parameters` expects at least"),
        (
            ("--text", "README.md", "--remove-heads", 4, "--score-examples", 9),
            "--examples N reads N texts",
        ),
    ],
)
def test_mistakes(tagger, tmp_path, run_command, words, message):
    done = run_command("shrink", tagger, *words, "--out", tmp_path / "s")
    assert done.code in (1, 2)
    assert message in done.message
    assert clean(done)
    assert not (tmp_path / "s").exists()


def test_text_needs_a_loss_without_labels(tagger, tmp_path, run_command):
    text = tmp_path / "text.txt"
    text.write_text("Maria bought a red car .\n", encoding="utf-8")
    done = run_command(
        "shrink", tagger, "--text", text, "--remove-heads", 4, "--out", tmp_path / "s"
    )
    assert done.code == 1
    assert "--loss self" in done.err


def test_what_needs_no_weights_is_checked_before_they_are_read(
    tagger, tmp_path, run_command, monkeypatch
):
    monkeypatch.setattr("deadhead.saved.shrink.load_with_tokenizer", None)
    (tmp_path / "one.txt").write_text("Maria bought a red car .\n", encoding="utf-8")
    words = ("shrink", tagger, "--text", tmp_path / "one.txt", "--remove-heads", 4)
    for loss, message in (("embedding", "a sentence encoder"), ("self", "at least 3 examples")):
        done = run_command(*words, "--loss", loss, "--out", tmp_path / "s")
        assert done.code == 1
        assert message in done.err


@pytest.mark.parametrize(
    ("target", "heads"),
    [(("--remove-heads", "50%"), 20), (("--speedup", "1.2", "--remove-layers", 3), 16)],
)
def test_an_interrupt_while_it_times_loses_nothing(
    tagger, tmp_path, run_command, monkeypatch, target, heads
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("deadhead.saved.parts.time_models", interrupt)
    out = tmp_path / "smaller"
    done = run_command("shrink", tagger, *DATA, *SMALL, *target, "--out", out)
    assert (done.code, done.err.splitlines()[-1]) == (130, f"interrupted: {out} is complete.")
    model = load(out)
    assert len(discover(model)) <= heads
    assert model.dtype == torch.bfloat16


def test_one_target_over_all_parts(tagger, tmp_path, run_command, monkeypatch):
    """Megabytes of weights, and the next try of a missed speed-up, which is timed after saving."""
    out, text = tmp_path / "small", tmp_path / "text.txt"
    rows = load_data("pos", "en", "train", root="world", parts=1).rows
    text.write_text("\n".join(" ".join(row.texts) for row in rows), encoding="utf-8")
    whole = sum(p.numel() for p in load(tagger).parameters())
    megabytes = 0.5 * 2 * whole / 1e6
    words = ("shrink", tagger, *DATA, *SMALL, "--vocabulary", text, "--out", out)
    done = run_command(*words, "--keep-megabytes", megabytes, "--json")
    assert done.code == 0, done.err
    facts, small = json.loads(done.out), load(out)
    size = sum(p.numel() for p in small.parameters())
    assert facts["sizes"]["parameters"] == [whole, size]
    assert 0.4 * whole < size <= 0.5 * whole
    assert facts["megabytes"] == pytest.approx([2 * whole / 1e6, 2 * size / 1e6])
    assert sum(part["parameters"] for part in facts["parts"]) == whole - size
    names = [part["name"] for part in facts["parts"]]
    assert names == [n for n in ("vocabulary", "layers", "heads", "neurons") if n in names]
    assert names[0] == "vocabulary"
    assert len(names) > 1
    monkeypatch.setattr(  # a machine on which nothing saves time
        "deadhead.saved.parts.time_models", lambda models, *_, **__: [1.0] * len(models)
    )
    done = run_command(*words, "--speedup", "1.2", "--remove-layers", 2, "--force")
    assert done.code == 0, done.err
    missed = done.out[done.out.index("the speed-up was missed by") :].splitlines()[0]
    assert f"The next try: deadhead shrink {tagger} " in missed
    assert " --speedup 1.44 " in missed
    assert missed.endswith(" --force")
    assert "saved by removed" in done.out
