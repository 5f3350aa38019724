"""`rank` itself: one contract over every method, and one clear error for each mistake."""

import copy
from dataclasses import is_dataclass

import pytest
import torch

from deadhead.errors import DataError, DeadheadError, UnknownName, UnsupportedModel
from deadhead.heads import discover, prune
from deadhead.rankers import RANKERS, rank, ranker
from deadhead.rankers.run import check_scores
from deadhead.registry.options import OptionError

# Options that keep a method quick; a new method needs a line only where its defaults are slow.
QUICK = {"l0": {"steps": 5}, "shapley": {"permutations": 3}}
METHODS = pytest.mark.parametrize("method", sorted(RANKERS))


def state(model):
    """Everything about a model that a ranking must leave as it was, besides its weights."""
    return [
        *((m.training, len(m._forward_pre_hooks), len(m._forward_hooks)) for m in model.modules()),
        *(parameter.requires_grad for parameter in model.parameters()),
        *("forward" in vars(module) for module in model.modules()),
    ]


@METHODS
def test_every_method_keeps_the_contract(case, method):
    setup = case("tag")
    setup.model.train()
    setup.model.classifier.weight.requires_grad_(False)
    setup.model.roberta.encoder.layer[0].eval()
    before, weights = state(setup.model), copy.deepcopy(setup.model.state_dict())
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    ranking, again = (
        rank(setup.model, [setup.batch], method, seed=7, **QUICK.get(method, {})) for _ in range(2)
    )
    assert torch.equal(torch.rand(3), drawn)  # the caller's random numbers are untouched
    assert again == ranking
    assert tuple(ranking.scores) == tuple(discover(setup.model))
    assert len(set(ranking.scores.values())) > 1
    assert is_dataclass(ranker(method))
    assert state(setup.model) == before
    for name, value in setup.model.state_dict().items():
        assert torch.equal(value, weights[name])
    assert all(p.grad is None for p in setup.model.parameters())
    if method in QUICK:  # they draw at random
        other = rank(setup.model, [setup.batch], method, seed=8, **QUICK[method])
        assert other.scores != ranking.scores


@pytest.mark.parametrize(
    ("method", "kind"), [*((method, "tag") for method in RANKERS), ("gradient", "seq2seq")]
)
def test_closed_heads_get_no_score_and_are_as_good_as_removed(case, method, kind):
    setup, options = case(kind), QUICK.get(method, {})
    layout = discover(setup.model)
    removed = [
        head for head in layout if (head.layer, head.index) in ((0, 0), (0, 1), (1, 2), (1, 3))
    ]
    whole = rank(setup.model, [setup.batch], method, **options)
    closed = rank(setup.model, [setup.batch], method, closed=removed, **options)
    cut = rank(prune(setup.model, removed), [setup.batch], method, **options)
    assert set(closed.scores) == set(cut.scores) == set(layout) - set(removed)
    assert closed.scores == pytest.approx(cut.scores, abs=1e-4 if method == "l0" else 1e-6)
    assert max(abs(whole[head] - score) for head, score in closed.scores.items()) > 1e-4


@METHODS
def test_every_method_leaves_the_model_alone_after_an_error(case, method):
    setup = case("tag")
    setup.model.train()
    before, calls = state(setup.model), []

    def stop(module, args):
        calls.append(1)
        # the first call is that of the check of labels
        if len(calls) > (RANKERS[method].reads != "inputs"):
            raise RuntimeError("stop")

    handle = setup.model.classifier.register_forward_pre_hook(stop)
    with pytest.raises(RuntimeError, match="stop"):
        rank(setup.model, [setup.batch], method, **QUICK.get(method, {}))
    handle.remove()
    assert state(setup.model) == before


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


def wrong_label(batch, label):
    labels = batch["labels"].clone()
    labels[2, 1] = label
    return {**batch, "labels": labels}


MISTAKES = {  # from right batches of a tagger to wrong ones, and the words of the error
    "no data": (lambda b: [], "no data"),
    "one batch": (lambda b: b, "expected a list of batches, got one batch"),
    "no list": (lambda b: 1, "expected a list of batches, got int"),
    "no batch": (lambda b: [b, 1], "batch 1 is int, not a dict"),
    "empty": (lambda b: [{**b, "labels": b["labels"][:0]}], "batch 0 is empty"),
    "no labels": (
        lambda b: [b, {name: value for name, value in b.items() if name != "labels"}],
        "batch 1 has no labels",
    ),
    "no label": (lambda b: [{**b, "labels": torch.full((4, 12), -100)}], "no token has a label"),
    "a label too many": (
        lambda b: [b, wrong_label(b, 5)],
        "batch 1 has the label 5, but the model knows 5 classes",
    ),
    "a label below 0": (lambda b: [wrong_label(b, -1)], "label -1"),
    "a label each": (lambda b: [{**b, "labels": torch.ones(4).long()}], "do not fit XLMRoberta"),
    "floats": (lambda b: [{**b, "labels": torch.rand(4, 12)}], "float32"),
    "a list": (lambda b: [{**b, "labels": [0, 1, 1, 2]}], "are list"),
    "other tokens": (
        lambda b: [b, {**b, "input_ids": b["input_ids"] + 100_000}],
        "batch 1 has token 1000",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_data_that_does_not_fit(case, mistake):
    setup, (change, words) = case("tag"), MISTAKES[mistake]
    refuses(setup.model, change(setup.batch), DataError, words)


@pytest.mark.parametrize(
    ("method", "option", "value", "words"),
    [
        ("l0", "penalty", "x", "a number from 0"),
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


# The means of nan would be reported instead of the loss.
ZERO = {**QUICK, "attribution": {"fill": "zero"}}
WAYS = pytest.mark.parametrize(
    ("method", "options"),
    [*((m, ZERO.get(m, {})) for m in sorted(RANKERS)), ("lrp", {"rule": "alpha-beta"})],
)


@WAYS
def test_loss_that_is_not_finite(case, method, options):
    """Of one example, or of all since the classifier is nan."""
    setup = case("classify")
    words = "example {} of batch {} is not a finite number"
    blind = copy.deepcopy(setup.model)
    with torch.no_grad():
        blind.classifier.weight.fill_(float("nan"))
        table = setup.model.bert.embeddings.word_embeddings.weight
        table[int(setup.batch["input_ids"][2, 3])] = float("nan")
    batches = [setup.singles()[1], setup.batch]
    refuses(setup.model, batches, DataError, words.format(2, 1), method, **options)
    refuses(blind, batches[1:], DataError, words.format(0, 0), method, **options)


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
        "no gate gets a gradient .2: encoder layer 0, encoder layer 1.*not depend on attention",
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


@pytest.mark.slow
def test_compiled_models_rank_the_same(case):
    """torch.compile does not see hooks that come later; a ranking must not miss them."""
    setup = case("classify")
    del setup.model.bert.encoder.layer[1:]  # each layer takes seconds to compile
    uncompiled = rank(setup.model, [setup.batch])
    setup.model.bert.encoder.compile(backend="eager")
    again = rank(setup.model, [setup.batch])
    assert max(abs(again[head] - uncompiled[head]) for head in uncompiled.scores) < 1e-10


@METHODS
def test_a_model_without_numbers_is_refused(case, method):
    """On the device "meta" there is nothing to compute with."""
    setup = case("tag")
    with pytest.raises(UnsupportedModel, match="weights in memory, got the meta device"):
        rank(setup.model.to("meta"), [setup.batch], method, progress=False)
