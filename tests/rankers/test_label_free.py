"""Ranking without labels: own losses, and the distance to the whole model, against brute force."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from deadhead import discover, gated, rank
from deadhead.errors import DataError, DeadheadError, UnknownName, UnsupportedModel
from deadhead.layout import Head
from deadhead.rankers import label_free
from deadhead.rankers.loss import forward

USELESS = Head("encoder", 0, 2)
QUICK: dict[str, dict[str, Any]] = {
    "shapley": {"permutations": 30, "tolerance": -1.0},
    "l0": {"steps": 60, "penalty": 0.3},
}
METHODS = ("taylor", "gradient", "ablation", "shapley", "l0")


@pytest.fixture(scope="module")
def embedder():
    """An embedding model: no labels, no logits, and a head whose output weights are 0."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 32,
    }
    model = (
        BertModel(BertConfig(**sizes, initializer_range=0.4, max_position_embeddings=16))
        .double()
        .eval()
    )
    with torch.no_grad():
        model.encoder.layer[0].attention.output.dense.weight[:, 16:24] = 0
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def texts():
    draw = torch.Generator().manual_seed(1)
    lengths = torch.tensor([9, 4, 7, 6])
    batches = []
    for _ in range(2):
        mask = (torch.arange(9)[None] < lengths[:, None]).long()
        batches.append(
            {
                "input_ids": torch.randint(3, 50, (4, 9), generator=draw) * mask,
                "attention_mask": mask,
            }
        )
    return batches


@pytest.mark.parametrize("method", METHODS)
def test_a_head_that_does_nothing_comes_last(method, embedder, texts):
    ranking = rank(embedder, texts, method, loss="self", **QUICK.get(method, {}))
    assert ranking.lowest(1) == (USELESS,)
    assert ranking[ranking.lowest(2)[1]] > ranking[USELESS]
    assert ranking.options["loss"] == "self"
    assert len(set(ranking.scores.values())) > 6
    assert (
        rank(embedder, texts, method, loss="self", **QUICK.get(method, {})).scores == ranking.scores
    )  # seeded


def hidden(model, batch, gates):
    with gated(model, gates):
        return model(**batch).last_hidden_state * batch["attention_mask"][..., None]


def test_ablation_measures_the_distance_itself(embedder, texts):
    scores = rank(embedder, texts, "ablation", loss="self").scores
    for head in discover(embedder):
        each = []
        for batch in texts:
            whole, less = hidden(embedder, batch, {}), hidden(embedder, batch, {head: 0.0})
            share = (whole - less).square().sum(-1) / whole.square().sum(-1).clamp(min=1e-9)
            each.append(share.sum(1) / batch["attention_mask"].sum(1))
        assert scores[head] == pytest.approx(float(torch.cat(each).mean()), rel=1e-6, abs=1e-12)


def moved(model, batch, head):
    """How far each output moves with the gate of a head, relative to its size, by differences."""
    step = 1e-4
    slope = (hidden(model, batch, {head: 1 + step}) - hidden(model, batch, {head: 1 - step})) / (
        2 * step
    )
    return slope.flatten(1).norm(dim=1) / hidden(model, batch, {}).flatten(1).norm(dim=1)


@pytest.mark.slow
def test_gradients_estimate_how_far_the_output_moves(embedder, texts, monkeypatch):
    monkeypatch.setattr(label_free, "DRAWS", 300)
    raw = rank(embedder, texts, "gradient", loss="self").raw
    assert raw is not None
    tokens = sum(int(batch["attention_mask"].sum()) for batch in texts)
    for head in discover(embedder):
        expected = (
            sum(float(moved(embedder, batch, head).sum()) for batch in texts)
            * math.sqrt(2 / math.pi)
            / tokens
        )
        assert raw[head] == pytest.approx(
            expected, rel=0.08, abs=1e-12
        )  # a mean of 2,400 draws: five standard errors


def test_many_examples_have_fewer_probes_of_each(embedder, texts):
    def seeds(**options):
        probed = label_free.with_loss(embedder, texts, "self", True, 0, **options)
        return [batch[label_free.SEEDS].tolist() for batch in probed]

    examples = sum(map(label_free.examples_of, texts))
    assert seeds(probes=4 * examples) == seeds() == seeds(probes=9 * examples)
    assert seeds(probes=1) == seeds()[:: label_free.DRAWS]
    assert len(seeds(probes=2 * examples)) == 2 * len(texts)


def test_logits_are_compared_as_predictions(case):
    setup = case("classify")
    batch = {name: value for name, value in setup.batch.items() if name != "labels"}
    scores = rank(setup.model, [batch], "ablation", loss="self").scores
    with torch.no_grad():
        whole = setup.model(**batch).logits.log_softmax(-1)
        for head in discover(setup.model):
            with gated(setup.model, closed=[head]):
                less = setup.model(**batch).logits.log_softmax(-1)
            assert scores[head] == pytest.approx(
                float((whole.exp() * (whole - less)).sum(-1).mean()), abs=1e-9
            )


@pytest.mark.parametrize("method", ["taylor", "gradient", "ablation", "shapley"])
def test_a_loss_of_ones_own_is_taken_as_it_is(method, case):
    setup = case("classify")
    options = {"shapley": {"measure": "loss", "permutations": 3}}.get(method, {})

    def entropy_of_labels(outputs, batch):
        return torch.nn.functional.cross_entropy(outputs.logits, batch["labels"], reduction="none")

    mine = rank(setup.model, [setup.batch], method, loss=entropy_of_labels, **options)
    assert mine.options["loss"] == "entropy_of_labels"
    expected = rank(setup.model, [setup.batch], method, **options)
    assert mine.scores == pytest.approx(dict(expected.scores), rel=1e-9)


def test_mistakes(embedder, texts, case):
    with pytest.raises(DataError, match=r'(?s)batch 0 has no labels.*loss="self"'):
        rank(embedder, texts)
    with pytest.raises(UnsupportedModel, match=r'(?s)without logits.*loss="self"'):
        rank(embedder, [{**texts[0], "labels": torch.zeros(4, dtype=torch.long)}])
    with pytest.raises(UnknownName, match="Did you mean 'self'"):
        rank(embedder, texts, loss="slef")
    with pytest.raises(DeadheadError, match='"self" or "embedding" or a function, got 3'):
        rank(embedder, texts, loss=3)
    with pytest.raises(DeadheadError, match="entropy reads the inputs alone"):
        rank(embedder, texts, "entropy", loss="self")
    with pytest.raises(DeadheadError, match="lrp explains the logit"):
        rank(embedder, texts, "lrp", loss="self")
    with pytest.raises(DeadheadError, match="measure=accuracy needs labels"):
        rank(embedder, texts, "shapley", loss="self", measure="accuracy")
    with pytest.raises(DeadheadError, match="random signs"):
        rank(embedder, texts, loss="self", unit="per_batch")
    with pytest.raises(DataError, match=r"shape \(\), torch.float64 for a batch of 4 examples"):
        rank(embedder, texts, loss=lambda outputs, batch: outputs.last_hidden_state.sum())
    with pytest.raises(DataError, match="batch 0 has no inputs"):
        rank(embedder, [{"ids": texts[0]["input_ids"]}], loss="self")
    assert forward(
        embedder, label_free.with_loss(embedder, texts, "self", False, 0)[0]
    ).last_hidden_state.shape == (4, 9, 32)


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1, 1.5, True])
def test_what_is_no_seed(embedder, texts, seed):
    with pytest.raises(DeadheadError, match=r"`seed` expects a whole number from -2\^63"):
        rank(embedder, texts, "taylor", loss="self", seed=seed)


@pytest.mark.parametrize("method", ["ablation", "gradient", "taylor"])
def test_one_number_is_compared_by_its_square(method, embedder, texts):
    """The divergence of a distribution over one class would be 0 for every head."""
    config = BertConfig(**{**embedder.config.to_dict(), "num_labels": 1})
    torch.manual_seed(2)
    model = BertForSequenceClassification(config).double().eval()
    model.bert.load_state_dict(embedder.state_dict())
    scores = rank(model, texts, method, loss="self").scores
    assert abs(scores[USELESS]) < 1e-12
    assert all(score > 0 for head, score in scores.items() if head != USELESS)
    if method == "ablation":
        head, moved = Head("encoder", 1, 0), []
        for batch in texts:
            with torch.no_grad():
                whole = model(**batch).logits
                with gated(model, closed=[head]):
                    moved.append((model(**batch).logits - whole).square())
        assert scores[head] == pytest.approx(float(torch.cat(moved).mean()), rel=1e-6)


@pytest.mark.parametrize("labels", [1, 3])
def test_labels_of_which_several_hold_are_compared_one_by_one(labels, embedder, texts):
    sizes = {"num_labels": labels, "problem_type": "multi_label_classification"}
    torch.manual_seed(2)
    model = BertForSequenceClassification(BertConfig(**{**embedder.config.to_dict(), **sizes}))
    model = model.double().eval().requires_grad_(False)
    head, risen = Head("encoder", 1, 0), []
    for batch in texts:
        whole = model(**batch).logits
        with gated(model, closed=[head]):
            less = model(**batch).logits
        entropies = [cross_entropy(logits, whole.sigmoid()) for logits in (less, whole)]
        risen.append(entropies[0] - entropies[1])
    scores = rank(model, texts, "ablation", loss="self").scores
    assert scores[head] == pytest.approx(float(torch.cat(risen).mean()), rel=1e-6)
    assert min(rank(model, texts, "fisher", loss="self", form="diagonal").scores.values()) >= 0


def cross_entropy(logits, chances):
    """Binary, and summed over the labels of each example."""
    losses = torch.nn.BCEWithLogitsLoss(reduction="none")(logits, chances)
    return losses.sum(1)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression", None])
def test_directions_are_those_of_the_problem(problem):
    """The mean product of two slopes is the curvature of the distance between the predictions."""
    logits = torch.tensor([[-1.0, 0.5, 2.0]]).double().repeat(4000, 1).requires_grad_()
    outputs, seeds = SimpleNamespace(logits=logits), torch.arange(4000)
    values = label_free.probe(outputs, {"deadhead.seeds": seeds}, problem)
    (slopes,) = torch.autograd.grad(values.sum(), logits)
    yes, classes = logits[0].detach().sigmoid(), logits[0].detach().softmax(-1)
    expected = {
        "multi_label_classification": (yes * (1 - yes)).diag(),
        "regression": torch.eye(3, dtype=torch.float64),
        None: classes.diag() - torch.outer(classes, classes),
    }[problem]
    assert torch.allclose(slopes.T @ slopes / 4000, expected, atol=0.08 if problem else 0.02)
    whole = {"deadhead.target": logits.detach()}
    near = SimpleNamespace(logits=logits.detach()[:1] + torch.tensor([[0.01, 0.02, -0.01]]))
    step = (near.logits - logits[:1]).detach()[0]
    half = 1 if problem == "regression" else 0.5  # a square is not halved, and a divergence is
    assert float(label_free.distance(near, whole, problem)[0]) == pytest.approx(
        float(half * step @ expected @ step), rel=0.02
    )
