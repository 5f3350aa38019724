"""The names of options: few are shown, flags show no type, old names work and say the new one."""

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import deadhead
from deadhead.cli import app
from deadhead.cli._names import OLD, PANELS, RARE, SPLIT, strategy_flag
from deadhead.papers.catalogue import names
from deadhead.papers.claims import VERDICTS
from deadhead.strategies import STRATEGIES
from deadhead.training.history import SAVED
from deadhead.world import MODELS

MOST = 20  # options that the help of a command shows, with --help
SOURCE = Path(deadhead.__file__).parent


def leaves(group, prefix=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(leaves(get_command(app)))


def options(name, *, visible_only=False):
    every = [p for p in COMMANDS[name].params if p.param_type_name == "option"]
    return {p.opts[0]: p for p in every if not (visible_only and p.hidden)}


def help_of(name, flag="--help"):
    env = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner().invoke(app, [*name.split(), flag], env=env).output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_few_options_in_panels_and_no_type_of_flags(name):
    text = help_of(name)
    # further to the right is a line of a help text
    listed = re.findall(r"^│ [ *]{,4}(--[a-z0-9-]+)", text, re.MULTILINE)
    assert sorted(listed) == sorted([*options(name, visible_only=True), "--help"])
    assert len(listed) <= MOST
    assert "<bool>" not in text
    titles = re.findall(r"^╭─ (.+?) ─", text, re.MULTILINE)
    assert titles == [title for title in ("Arguments", *PANELS) if title in titles]


@pytest.mark.parametrize("name", RARE)
def test_rare_options_are_named_in_the_help_and_described_on_request(name):
    rare = [p for p in options(name).values() if p.name in RARE[name]]
    assert len(rare) == len(RARE[name])
    below, full = " ".join(help_of(name).split()), help_of(name, "--help-all")
    for option in rare:
        assert f" {option.opts[0]}" in below.partition("Rarely needed")[2]
        assert re.search(rf"│ +{option.opts[0]} ", full)


def test_every_name_of_a_table_is_an_option():
    every = {name for command in COMMANDS for name in options(command)}
    panels = [f"--{name}" for text in PANELS.values() for name in text.split()]
    assert [name for name in panels if name not in every] == []
    assert len(set(panels)) == len(panels)
    for command, changed in OLD.items():
        has = {*options(command)} if command else every
        assert [new for new in changed.values() if command != "" and new not in has] == []
        assert {*changed} & has == set() or command == ""
    assert {new for changed in SPLIT.values() for new in changed.values()} <= {*COMMANDS}


def test_options_say_whether_a_share_goes_or_stays():
    shares = {"--remove-heads", "--remove-neurons", "--keep-macs", "--keep-parameters"}
    assert shares | {"--speedup"} <= {*options("shrink")}
    for name, strategy in STRATEGIES.items():
        verb = "Keep" if strategy_flag(name).startswith("--keep-") else "Remove"
        assert strategy.help.startswith(f"{verb} ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("--heads", "encoder.0.1"), "--remove-heads"),
        (("--random=50",), "--remove-random"),
        (("--remove-layers", "top 1"), "--remove-heads-of-layers"),
        (("--auto", "AutoModel", "--remove-heads", "encoder.0.1"), "--auto-class"),
    ],
)
def test_an_old_name_works_and_says_the_new_one(old, new, tmp_path, run_command, bert):
    done = run_command("prune", bert, *old, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert f"note: {old[0].partition('=')[0]} is now {new}; the old name works until" in done.err
    words = [word.replace(old[0].partition("=")[0], new) for word in old]
    assert "is now" not in run_command("prune", bert, *words, "--out", tmp_path / "new").err


def test_an_old_name_beside_the_new_one_is_refused(run_command, bert):
    heads = ("--heads", "encoder.0.1", "--remove-heads", "encoder.0.2")
    done = run_command("prune", bert, *heads, "--out", "out")
    assert done.code == 2
    assert "the same as --remove-heads: give one" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("words", "new", "problem"),
    [(("export", "nowhere", "--csv", "x.csv"), "export-study", "nowhere")],
)
def test_a_command_that_was_split_says_its_new_name(words, new, problem, run_command):
    done = run_command(*words)
    assert done.code != 0
    text = done.message
    assert f"is now deadhead {new}; the old name works until" in text
    assert problem in text


def test_a_percentage_with_and_without_its_sign(run_command, bert, tmp_path):
    removed = []
    for number, share in enumerate(("50%", "50")):
        out = tmp_path / str(number)
        removed.append(run_command("prune", bert, "--remove-random", share, "--out", out).out[:20])
    assert removed[0] == removed[1]
    done = run_command("prune", bert, "--remove-random", "half", "--out", tmp_path / "no")
    assert (done.code, "a percentage such as 50%, got 'half'" in done.err) == (2, True)


def texts_with(pattern, folder=SOURCE):
    """The modules whose text has this pattern."""
    return sorted(
        str(file.relative_to(SOURCE))
        for file in folder.rglob("*.py")
        if re.search(pattern, file.read_text(encoding="utf-8"))
    )


def test_one_list_of_papers_of_verdicts_and_of_weights_to_save():
    listed = ", ".join(names())
    assert f"{listed}; or luck" in help_of("claims")
    assert texts_with(r"\bmbert-prunability\b.*\bcontributions\b", SOURCE / "cli") == []
    quoted = [
        rf'= .*"{verdict}"' for verdict in VERDICTS if " " in verdict
    ]  # "holds" has other uses
    assert texts_with("|".join(quoted)) == ["papers/claims/verdict.py"]
    assert texts_with(r'\("last", "best"\)|\("best", "last"\)') == ["training/history.py"]
    assert all(name in options("finetune")["--weights"].help for name in SAVED)


def test_the_bundled_model_learns_from_its_teacher(run_command, tmp_path):
    from transformers import AutoTokenizer

    from deadhead import discover, load, save

    whole = tmp_path / "whole"
    save(
        load(MODELS / "encoder", auto="AutoModel"),
        whole,
        AutoTokenizer.from_pretrained(MODELS / "encoder"),
    )
    text = tmp_path / "texts.txt"
    text.write_text("Maria bought a red car .\nThe dog sleeps .\n" * 8, encoding="utf-8")
    run_command("prune", whole, "--remove-random", "50%", "--out", tmp_path / "half")
    words = ("finetune", tmp_path / "half", "--text", text, "--device", "cpu")
    words += ("--learning-rate", "1e-3", "--batch-size", 4)
    done = run_command(*words, "--teacher", whole, "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    import json

    losses = json.loads(done.out)["losses"]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert len(discover(load(tmp_path / "out"))) == 20
    for more, message in (
        (("--lora", 4), "does not go with --teacher"),
        (("--option", "smoothing=0.1"), "no setting of a training with --teacher 'smoothing'"),
    ):
        done = run_command(*words, "--teacher", whole, *more, "--out", tmp_path / "no")
        assert done.code in (1, 2)
        assert message in done.message
    done = run_command(*words, "--out", tmp_path / "no")
    assert "goes with --teacher" in done.err
    other = ("--teacher", MODELS / "encoder", "--out", tmp_path / "no")
    done = run_command(*words, *other)
    assert (done.code, "its teacher" in done.err) == (1, True)
