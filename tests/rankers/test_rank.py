"""`rank` itself: one contract over every method, and one clear error for each mistake in what it is given."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import is_dataclass

import numpy as np
import pytest
import torch
from torch import nn

from architectures.tiny import tiny
from deadhead.effects import patch_effects
from deadhead.errors import DataError, DeadheadError, HeadError, UnknownName, UnsupportedModel
from deadhead.heads import discover, head_means
from deadhead.rankers import RANKERS, rank, ranker
from deadhead.rankers.run import check_scores
from deadhead.registry.options import OptionError
from deadhead.verify.inputs import batch_for

# Options that keep a method quick; a new method needs a line only where its defaults are slow.
QUICK = {"l0": {"steps": 5}, "shapley": {"permutations": 3}}
METHODS = pytest.mark.parametrize("method", sorted(RANKERS))


@METHODS
def test_every_method_keeps_the_contract(case, method):
    setup = case("tag")
    setup.model.train()
    setup.model.classifier.weight.requires_grad_(False)
    setup.model.roberta.encoder.layer[0].eval()
    modes = [m.training for m in setup.model.modules()]
    flags = [p.requires_grad for p in setup.model.parameters()]
    weights = copy.deepcopy(setup.model.state_dict())
    hooks = [len(m._forward_pre_hooks) + len(m._forward_hooks) for m in setup.model.modules()]
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    ranking = rank(setup.model, [setup.batch], method, seed=7, **QUICK.get(method, {}))
    assert torch.equal(torch.rand(3), drawn)  # the caller's random numbers are untouched
    assert tuple(ranking.scores) == tuple(discover(setup.model))
    assert len(set(ranking.scores.values())) > 1
    assert is_dataclass(ranker(method))
    assert [m.training for m in setup.model.modules()] == modes
    assert [p.requires_grad for p in setup.model.parameters()] == flags
    assert [
        len(m._forward_pre_hooks) + len(m._forward_hooks) for m in setup.model.modules()
    ] == hooks
    assert all(
        torch.equal(value, weights[name]) for name, value in setup.model.state_dict().items()
    )
    assert all(p.grad is None for p in setup.model.parameters())


@METHODS
def test_every_method_is_deterministic_for_a_seed(case, method):
    setup = case("tag")
    first, again = (
        rank(setup.model, [setup.batch], method, seed=3, **QUICK.get(method, {})) for _ in range(2)
    )
    assert first == again


@METHODS
def test_every_method_leaves_closed_heads_out(case, method):
    setup = case("tag")
    closed = ["encoder.0.1", "encoder.1.0"]
    ranking = rank(setup.model, [setup.batch], method, closed=closed, **QUICK.get(method, {}))
    assert {str(head) for head in discover(setup.model)} - {
        str(head) for head in ranking.scores
    } == set(closed)


@METHODS
def test_every_method_leaves_the_model_alone_after_an_error(case, method):
    setup = case("tag")
    setup.model.train()
    flags = [p.requires_grad for p in setup.model.parameters()]
    hooks = [len(m._forward_pre_hooks) + len(m._forward_hooks) for m in setup.model.modules()]
    calls = []

    def stop(module: nn.Module, args):
        calls.append(1)
        # the first call is that of the check of labels
        if len(calls) > (RANKERS[method].reads != "inputs"):
            raise RuntimeError("stop")

    handle = setup.model.classifier.register_forward_pre_hook(stop)
    with pytest.raises(RuntimeError, match="stop"):
        rank(setup.model, [setup.batch], method, **QUICK.get(method, {}))
    handle.remove()
    assert setup.model.training
    assert [p.requires_grad for p in setup.model.parameters()] == flags
    assert [
        len(m._forward_pre_hooks) + len(m._forward_hooks) for m in setup.model.modules()
    ] == hooks
    assert all("forward" not in vars(m) for m in setup.model.modules())


def test_ranking_remembers_where_it_came_from(case):
    setup = case("classify")
    ranking = rank(
        setup.model, [setup.batch], seed=4, unit="per_token", data={"task": "xnli", "lang": "de"}
    )
    assert (ranking.method, ranking.seed, ranking.options["unit"]) == (
        "taylor",
        4,
        "per_token",
    )  # the method of our own results
    assert (ranking.data["examples"], ranking.data["tokens"]) == (4, 33)
    assert ranking.data["task"] == "xnli"
    assert {"deadhead", "torch", "transformers"} <= set(ranking.versions)
    other = {**setup.batch, "labels": setup.batch["labels"].flip(0)}
    assert rank(setup.model, [other]).data["fingerprint"] != ranking.data["fingerprint"]


def test_works_where_gradients_are_off(case):
    setup = case("classify")
    with torch.no_grad():
        inside = rank(setup.model, [setup.batch])
    assert inside.scores == rank(setup.model, [setup.batch]).scores


def test_generators_of_batches_are_read_once(case):
    setup = case("classify")
    assert (
        rank(setup.model, iter(setup.singles())).scores == rank(setup.model, setup.singles()).scores
    )


def refuses(model, batches, error, match, method="gradient", **options):
    with pytest.raises(error, match=match) as caught:
        rank(model, batches, method, **options)
    assert caught.value.hint is not None or isinstance(caught.value, UnknownName)


def test_unknown_method_and_option(case):
    setup = case("classify")
    refuses(setup.model, [setup.batch], UnknownName, "Did you mean 'gradient'", "gradeint")
    refuses(setup.model, [setup.batch], UnknownName, "Did you mean 'unit'", unti="per_token")
    refuses(setup.model, [setup.batch], OptionError, "Did you mean 'per_token'", unit="per_tokens")
    words = "expects auto, sentences or tokens, got 'words'"
    refuses(setup.model, [setup.batch], OptionError, words, "taylor", last_layer="words")


def test_no_data(case):
    setup = case("classify")
    refuses(setup.model, [], DataError, "no data")
    refuses(setup.model, setup.batch, DataError, "expected a list of batches, got one batch")
    refuses(
        setup.model,
        [{**setup.batch, "labels": setup.batch["labels"][:0]}],
        DataError,
        "batch 0 is empty",
    )


def test_no_labels(case):
    setup = case("tag")
    bare = {name: value for name, value in setup.batch.items() if name != "labels"}
    refuses(setup.model, [setup.batch, bare], DataError, "batch 1 has no labels")
    refuses(
        setup.model,
        [{**bare, "start_positions": torch.zeros(4)}],
        DataError,
        "'start_positions' is not read",
    )
    refuses(
        setup.model,
        [{**setup.batch, "labels": torch.full((4, 12), -100)}],
        DataError,
        "no token has a label",
    )


def test_tokens_without_an_embedding(case):
    setup = case("tag")
    wrong = {**setup.batch, "input_ids": setup.batch["input_ids"] + 100_000}
    refuses(setup.model, [setup.batch, wrong], DataError, "batch 1 has token 1000")
    with pytest.raises(DataError, match="batch 0 has token"):
        rank(setup.model, [wrong], method="taylor", loss="self")


def test_labels_that_do_not_fit(case):
    tagger, classifier = case("tag"), case("classify")
    wrong = tagger.batch["labels"].clone()
    wrong[2, 1] = 5
    refuses(
        tagger.model,
        [tagger.batch, {**tagger.batch, "labels": wrong}],
        DataError,
        "batch 1 has the label 5, but the model knows 5 classes",
    )
    wrong[2, 1] = -1
    refuses(tagger.model, [{**tagger.batch, "labels": wrong}], DataError, "label -1")
    refuses(
        tagger.model,
        [classifier.batch],
        DataError,
        "do not fit RobertaForTokenClassification|do not fit XLMRoberta",
    )
    refuses(classifier.model, [tagger.batch], DataError, "do not fit BertForSequenceClassification")
    refuses(classifier.model, [{**classifier.batch, "labels": torch.rand(4)}], DataError, "float32")
    refuses(classifier.model, [{**classifier.batch, "labels": [0, 1, 1, 2]}], DataError, "are list")


@pytest.mark.parametrize(
    ("method", "option", "value", "words"),
    [
        ("l0", "penalty", "x", "a number from 0 or a list of numbers from 0"),
        ("l0", "penalty", ["x"], "a list of numbers from 0"),
        ("l0", "steps", 3.5, "a whole number from 1"),
        ("shapley", "permutations", "5", "a whole number from 1"),
        ("shapley", "permutations", True, "a whole number from 1"),
        ("shapley", "rows_per_pass", "many", "a whole number from 1 or null"),
        ("gradient", "normalize", "no", "true or false"),
        ("gradient", "unit", 3, "per_example, per_batch, per_token or cumulative"),
        ("entropy", "smoothing", None, "a number from 0 to below 1"),
    ],
)
def test_options_of_the_wrong_type(method, option, value, words):
    with pytest.raises(OptionError, match=f"`{option}` of {method} expects .*{words}, got "):
        ranker(method, **{option: value})


def test_options_of_the_right_type():
    ranker("l0", penalty=[0, 0.5], steps=np.int64(3), start=2)
    ranker("l0", penalty=np.float64(0.5))
    ranker("shapley", rows_per_pass=None, truncation=0)


def test_what_is_no_batch(case):
    setup = case("classify")
    refuses(setup.model, [setup.batch, 1], DataError, "batch 1 is int, not a dict")
    refuses(setup.model, 1, DataError, "expected a list of batches, got int")


# The means of nan would be reported instead of the loss.
ZERO = {**QUICK, "attribution": {"fill": "zero"}}
WAYS = pytest.mark.parametrize(
    ("method", "options"),
    [*((m, ZERO.get(m, {})) for m in sorted(RANKERS)), ("lrp", {"rule": "alpha-beta"})],
)


@WAYS
def test_loss_that_is_not_finite(case, method, options):
    setup = case("classify")
    with torch.no_grad():
        setup.model.bert.embeddings.word_embeddings.weight[int(setup.batch["input_ids"][2, 3])] = (
            float("nan")
        )
    refuses(
        setup.model,
        [setup.singles()[1], setup.batch],
        DataError,
        "example 2 of batch 1 is not a finite number",
        method,
        **options,
    )


@WAYS
def test_a_classifier_of_nan_gets_no_ranking(case, method, options):
    setup = case("classify")
    with torch.no_grad():
        setup.model.classifier.weight.fill_(float("nan"))
    refuses(
        setup.model,
        [setup.batch],
        DataError,
        "example 0 of batch 0 is not a finite number",
        method,
        **options,
    )


@pytest.mark.parametrize("method", ["entropy", "confidence"])
def test_queries_of_nan_are_not_called_a_layer_that_was_not_run(case, method):
    setup = case("classify")
    with torch.no_grad():
        setup.model.bert.encoder.layer[1].attention.self.query.weight.fill_(float("nan"))
    refuses(setup.model, [setup.batch], DataError, "is not a finite number", method)


def test_no_gate_gets_a_gradient(case):
    setup = case("classify")
    blind = copy.deepcopy(setup.model)
    with torch.no_grad():
        blind.classifier.weight.zero_()
    refuses(
        blind,
        [setup.batch],
        UnsupportedModel,
        "no gate gets a gradient .2: encoder layer 0, encoder layer 1.*does not depend on attention",
    )
    cut = copy.deepcopy(setup.model)
    cut.bert.register_forward_hook(
        lambda m, a, out: type(out)({k: v.detach() for k, v in out.items()})
    )
    refuses(cut, [setup.batch], UnsupportedModel, "cuts the graph")
    unused = copy.deepcopy(setup.model)
    unused.bert.encoder.forward = lambda hidden, *a, **k: type(
        setup.model.bert(setup.batch["input_ids"])
    )(last_hidden_state=hidden)
    refuses(unused, [setup.batch], UnsupportedModel, "layers were not run")


def test_model_without_a_task_layer():
    model = tiny("albert")
    refuses(
        model,
        [{**batch_for(model), "labels": torch.tensor([0, 1])}],
        UnsupportedModel,
        "no task layer",
    )


def test_closed_heads_are_checked(case):
    setup = case("classify")
    refuses(
        setup.model,
        [setup.batch],
        HeadError,
        "expected one of the 4 heads of its layer, got 9",
        closed=["encoder.0.9"],
    )


def test_scores_are_checked(case):
    layout = discover(case("classify").model)
    scores = dict.fromkeys(layout, 0.5)
    check_scores("mine", layout, scores)
    first = next(iter(layout))
    with pytest.raises(DeadheadError, match=r"mine gave the score nan to head encoder\.0\.0"):
        check_scores("mine", layout, {**scores, first: float("nan")})
    with pytest.raises(DeadheadError, match="gave no score"):
        check_scores("mine", layout, {h: s for h, s in scores.items() if h != first})
    with pytest.raises(DeadheadError, match="not asked to score"):
        check_scores("mine", layout.without([first]), scores)


def test_importing_the_room_loads_no_torch():
    code = "import sys; import deadhead.rankers, deadhead.ranking, deadhead.rankers.merge; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_compiled_models_rank_the_same(case):
    """torch.compile does not see hooks that come later; a ranking must not be that of the model without them."""
    setup = case("classify")
    del setup.model.bert.encoder.layer[1:]  # each layer takes seconds to compile
    plain = rank(setup.model, [setup.batch])
    setup.model.bert.encoder.compile(backend="eager")
    again = rank(setup.model, [setup.batch])
    assert max(abs(again[head] - plain[head]) for head in plain.scores) < 1e-10


@METHODS
def test_a_model_without_numbers_is_refused(case, method):
    """On the device "meta" there is nothing to compute with."""
    setup = case("tag")
    with pytest.raises(UnsupportedModel, match="weights in memory, got the meta device"):
        rank(setup.model.to("meta"), [setup.batch], method, progress=False)


def test_means_and_patches_of_a_model_without_numbers_are_refused(case):
    setup = case("tag")
    model, batch = setup.model.to("meta"), setup.batch
    with pytest.raises(UnsupportedModel, match="weights in memory, got the meta device"):
        head_means(model, [setup.batch])
    with pytest.raises(UnsupportedModel, match="weights in memory, got the meta device"):
        patch_effects(model, batch, batch, lambda outputs, _: outputs.logits.sum((1, 2)))
