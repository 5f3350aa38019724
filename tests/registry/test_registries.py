"""The lists of rankers, strategies, measures and methods of choosing agree wherever they are
used."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from deadhead.cli._names import strategy_flag
from deadhead.errors import DeadheadError, UnknownName
from deadhead.measures import MEASURES, Measure, measure
from deadhead.rankers import METHOD, RANKERS, Ranker, ranker
from deadhead.registry import options
from deadhead.shrinking import AUTO, CHOOSERS, REPAIRS, Chooser, Repair, method_names
from deadhead.strategies import STRATEGIES, Strategy
from deadhead.studies import load

HELP = {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}


def help_of(command):
    from deadhead.cli import app

    return CliRunner().invoke(app, [command, "--help-all"], env=HELP).output


def refusal(*changes):
    with pytest.raises(DeadheadError) as error:
        load("smoke", list(changes))
    return error.value.message


@pytest.mark.parametrize("registry", [RANKERS, STRATEGIES, MEASURES, CHOOSERS, REPAIRS])
def test_a_registry_knows_its_parts(registry):
    assert len(dict(registry)) == len(registry) > 2
    with pytest.raises(UnknownName, match="Known: "):
        registry["nonsense"]
    assert "nonsense" not in registry
    assert 3 not in registry


def test_rankers_agree_in_python_help_and_recipes():
    assert METHOD in RANKERS
    assert ", ".join(RANKERS) in help_of("rank")
    for name, kind in RANKERS.items():
        assert issubclass(kind, Ranker)
        assert kind.__name__.lower() == name  # the owner that a refused option names
        assert load("smoke", [f"rank.method={name}"]).trials
        for option in [*options.options_of(kind)][:1]:  # similarity has none
            with pytest.raises(options.OptionError) as error:
                ranker(name, **{option: {"a": 1}})
            assert error.value.message in refusal(f"rank={{method: {name}, {option}: {{a: 1}}}}")


def test_strategies_agree_in_python_help_and_recipes():
    prune = help_of("prune")
    for name, strategy in STRATEGIES.items():
        assert isinstance(strategy, Strategy)
        assert f"{strategy_flag(name)} " in prune
        assert strategy.help in prune
        assert list(options.options_of(strategy.select))[:2] == ["seed", "scores"]
        assert f"axes.remove.{name}: " in refusal(f"remove={{{name}: banana}}")
        assert f"axes.remove.{name}: " in refusal(f"remove={{{name}: -1}}")


def test_measures_agree_in_python_and_recipes():
    for name, kind in MEASURES.items():
        assert issubclass(kind, Measure)
        assert kind.__name__.lower() == name
        assert all((kind.label, kind.help.endswith("."), kind.legend))
        for option in [*options.options_of(kind)][:1]:
            with pytest.raises(options.OptionError) as error:
                measure(name, **{option: "banana"})
            refused = (
                "steps=[measure, prune, finetune, evaluate]",
                f"measure=[{{{name}: {{{option}: banana}}}}]",
            )
            assert error.value.message in refusal(*refused)
        assert ("split" in options.options_of(kind)) == (kind.reads != "nothing")


def test_methods_of_choosing_state_their_facts():
    assert method_names() == ("auto", *CHOOSERS)
    assert ", ".join(method_names()) in help_of("shrink")
    for name, kind in CHOOSERS.items():
        assert issubclass(kind, Chooser)
        assert kind.__name__.lower() == name.replace("_", "")
        assert kind.help
        assert not kind.help.endswith(".")
        assert "heads" in kind.kinds
    for name in AUTO:
        assert CHOOSERS[name].kinds == ("heads", "neurons")
        assert CHOOSERS[name].predicts


def test_repairs_state_their_facts():
    assert ", ".join(REPAIRS) in help_of("shrink")
    for repair in REPAIRS.values():
        assert isinstance(repair, Repair)
        assert repair.help
        assert not repair.help.endswith(".")
        assert repair.compare_by is None or REPAIRS[repair.compare_by].compare_by is None


def test_facts_are_read_without_torch():
    code = (
        "import sys; import deadhead.rankers.merge; from deadhead.rankers import RANKERS; from "
        "deadhead.measures import MEASURES; "
        "from deadhead.strategies import STRATEGIES; from deadhead.shrinking import CHOOSERS, "
        "REPAIRS; [dict(t) for t in (RANKERS, MEASURES, STRATEGIES, CHOOSERS, REPAIRS)]; "
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
