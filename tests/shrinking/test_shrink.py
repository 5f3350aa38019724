"""`shrink` meets its target, reports what is true, and leaves the model alone after an error."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models_to_shrink import QUIET, build, data
from refit_by_hand import is_same, marks, state

from deadhead.display.progress import logged
from deadhead.errors import DataError, DeadheadError, UnknownArchitecture, UnknownName
from deadhead.heads import discover, gated, prune
from deadhead.heads.discover import find_every_site
from deadhead.shrinking import AUTO, REPAIRS, calibration, refit, shrink
from deadhead.shrinking import latency as timing
from deadhead.shrinking.candidates import CANDIDATES
from deadhead.shrinking.costs import costs
from deadhead.shrinking.held_out import mean_loss, split_examples


def unseen(model):
    """What an error must not change besides the weights."""
    return marks(model), model.config.to_dict()


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_half_of_the_heads_and_neurons(family):
    model, whole = build(family), build(family)
    report = shrink(model, data(family), heads=0.5, neurons="50%", **QUIET)
    assert report.model is model
    left = discover(model, neurons=True)
    layout = discover(whole, neurons=True)
    assert len(left) == len(layout) / 2
    assert sum(len(f.kept) for f in left.feed_forwards) * 2 == report.sizes["neurons"][0]
    assert report.sizes["heads"] == (len(layout), len(left))
    counts = (sum(p.numel() for p in m.parameters()) for m in (whole, model))
    assert report.sizes["parameters"] == tuple(counts)
    # the losses are those of the whole model, of the same model merely cut, and of the result
    _, held_out = split_examples(data(family))
    cut = prune(copy.deepcopy(whole), report.choice.heads, neurons=report.choice.neurons)
    by_hand = [mean_loss(m, held_out) for m in (whole, cut, model)]
    assert list(report.losses.values()) == pytest.approx(by_hand, abs=1e-9)
    assert list(report.losses) == ["whole", "cut", "refitted"]
    assert report.examples == (84, 12)
    outputs = {"outputs"} if family == "bert" else set()  # the task layer of its classes
    assert {row.kind for row in report.layers} == {"heads", "neurons"} | outputs
    errors = [row.errors for row in report.layers if row.errors]
    assert all(after <= before for before, after in errors)
    assert any(after < 0.95 * before for before, after in errors)  # the refit changed the model
    assert any("raised the held-out loss" in n for n in report.notes) == (by_hand[2] > by_hand[1])


def test_the_report_is_plain_data():
    report = shrink(build(), data(), heads=3, neurons=5, **QUIET)
    stored = json.loads(json.dumps(report.to_dict()))
    assert len(stored["choice"]["heads"]) == 3
    assert stored["sizes"]["neurons"] == [48, 43]
    assert set(stored["seconds"]) == {"count", "measure", "choose", "refit"}
    assert stored["speed"] is None
    assert "held-out loss: whole" in str(report)


@pytest.mark.parametrize(("family", "share"), [("bert", 0.8), ("llama", 0.4)])
def test_a_share_of_the_macs_remains(family, share):
    model = build(family)
    report = shrink(model, data(family), macs=share, **QUIET)
    before, after = report.sizes["macs"]
    assert share - 0.1 < after / before <= share
    counted = costs(model, find_every_site(model), data(family)[0], (2, 8))
    assert counted.of(counted.macs) == after


@pytest.mark.parametrize("method", ["auto", "reconstruction", "fisher", "kwon", "random"])
def test_a_head_stays_where_neurons_could_take_its_place(method):
    model = build()
    with torch.no_grad():  # heads hardly matter, so the cheapest choice has none
        for site in find_every_site(model, "heads"):
            if site.kind == "heads":
                site.out.weight.mul_(1e-3)
    report = shrink(model, data(), macs=0.2, method=method, repair="none", **QUIET)
    before, after = report.sizes["macs"]
    assert after <= 0.2 * before
    assert report.sizes["heads"][1] >= 1
    assert report.sizes["neurons"][1] > 0


def test_at_most_all_groups_of_heads_but_one_leave():
    report = shrink(build("llama"), data("llama"), heads=6, **QUIET)
    assert report.sizes["heads"] == (8, 2)
    with pytest.raises(DeadheadError, match="at most 6 heads, got 7"):
        shrink(build("llama"), data("llama"), heads=7, **QUIET)


def test_it_says_that_whole_groups_of_heads_leave():
    def notes(family, **targets):
        options = {"method": "random", "repair": "none", **QUIET}
        report = shrink(build(family), data(family), **targets, **options)
        return [note for note in report.notes if "key/value head" in note]

    (note,) = notes("llama", heads=0.2)
    assert note == "up to 2 heads share a key/value head: whole groups of them were removed"
    (note,) = notes("llama", heads=3)
    assert note.endswith("whole groups of them were removed, 4 heads where 3 were asked for")
    assert notes("llama", neurons=0.2) == []
    assert notes("bert", heads=0.2) == []


@pytest.mark.parametrize(  # bert has biases, llama none
    ("family", "repair"), [("bert", "refit"), *(("llama", repair) for repair in REPAIRS)]
)
def test_a_share_of_the_parameters_remains(family, repair):
    model = build(family)
    before = sum(p.numel() for p in model.parameters())
    shrink(model, data(family), parameters="60%", repair=repair, **QUIET)
    assert 0.55 < sum(p.numel() for p in model.parameters()) / before <= 0.6


def test_without_repair_it_is_pruning():
    model, pruned = build(), build()
    report = shrink(model, data(), heads=0.5, repair="none", **QUIET)
    prune(pruned, report.choice.heads)
    weights = zip(model.state_dict().items(), pruned.state_dict().items(), strict=True)
    assert all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in weights)
    assert report.losses["cut"] == pytest.approx(report.losses["refitted"], abs=1e-9)


@pytest.mark.parametrize("repair", [name for name in REPAIRS if name != "none"])
def test_repairs_without_labels(repair):
    unlabelled = [{k: v for k, v in batch.items() if k != "labels"} for batch in data()]
    model = build()
    options = {"repair": repair, "loss": "self", "neurons": 0.5}
    report = shrink(model, unlabelled, **options, **QUIET)
    assert report.losses["whole"] == pytest.approx(0, abs=1e-12)
    is_refit = repair.startswith("refit")
    assert report.losses["refitted"] > 0
    assert not is_refit or report.losses["refitted"] < report.losses["cut"]
    assert any(row.errors is not None and row.errors[1] < row.errors[0] for row in report.layers)
    names = {row.candidate.split()[0] for row in report.layers}
    assert names <= {"nothing", *(CANDIDATES if is_refit else [repair])}
    assert report.loss == "self"


def test_methods_are_compared_on_some_batches_and_the_best_is_refitted_to_all(monkeypatch):
    def shrunk(fewer):
        monkeypatch.setattr(calibration, "FEWER", fewer)
        return shrink(build(), data(), heads=0.5, neurons=0.5, **QUIET)

    some, everything = shrunk(4), shrunk(1)
    assert some.choice == everything.choice
    assert some.tried != everything.tried
    assert some.losses == pytest.approx(everything.losses)


def test_methods_are_compared_on_long_texts_too():
    """Batches are often sorted by length; the first of these has too few tokens to fit weights."""
    batches = [
        {name: value[:, :length] if value.dim() == 2 else value for name, value in batch.items()}
        for batch, length in zip(data(size=24), (1, 4, 8, 8), strict=True)
    ]
    report = shrink(build(), batches, heads=1, **QUIET)
    assert set(report.tried) == set(AUTO)


def test_the_log_says_how_long_all_takes():
    lines = []
    with logged(lines.append):
        shrink(build(), data(), heads=0.5, **{**QUIET, "progress": True})
    assert (
        sum(line.startswith("shrink: about ") and line.endswith(" in all") for line in lines) == 1
    )
    assert lines.index("shrink: choose") < lines.index("shrink: refit")


def test_all_projections_are_refitted():
    """Methods are compared as without it; only the better choice is refitted in every layer."""
    few, every, by_hand = build(), build(), build()
    unrefitted = shrink(few, data(), heads=2, **QUIET)
    report = shrink(every, data(), heads=2, repair="refit-all", **QUIET)
    assert (report.tried, report.choice.heads) == (unrefitted.tried, unrefitted.choice.heads)
    assert len(unrefitted.layers) < len(report.layers) == len(find_every_site(every)) + 1
    whole = [row for row in report.layers if row.left == row.before and row.kind != "outputs"]
    assert any(row.errors and row.errors[1] < row.errors[0] for row in whole)
    refit(by_hand, split_examples(data())[0], unrefitted.choice.heads, everywhere=True,
          progress=False)  # fmt: skip
    weights = zip(every.state_dict().values(), by_hand.state_dict().values(), strict=True)
    assert all(torch.equal(*pair) for pair in weights)


def test_the_batches_do_not_matter():
    results = []
    for size in (16, 5):
        model = build()
        report = shrink(model, data(size=size), heads=0.5, neurons=0.5, **QUIET)
        results.append((report.choice.heads, report.choice.neurons, report.losses["refitted"]))
    assert results[0][:2] == results[1][:2]
    assert results[0][2] == pytest.approx(results[1][2], abs=1e-6)


def test_a_score_is_requested_three_times():
    probe = data()[0]

    def score(model):
        with torch.no_grad():
            return float(model(**probe).loss)

    report = shrink(build(), data(), heads=0.5, score=score, **QUIET)
    assert list(report.scores) == ["whole", "cut", "refitted"]
    models = build(), prune(build(), report.choice.heads), report.model
    assert list(report.scores.values()) == pytest.approx([score(model) for model in models])


def test_methods_without_labels_measure_the_distance_of_outputs():
    unlabelled = [{k: v for k, v in batch.items() if k != "labels"} for batch in data()]
    report = shrink(build(), unlabelled, neurons=0.25, method="random", **QUIET)
    assert report.loss == "self"


def _nan(model):
    with torch.no_grad():
        model.bert.encoder.layer[1].intermediate.dense.weight[0, 0] = float("nan")


def _untouched(model):
    """No change."""


FEW = [{name: value[:1] for name, value in batch.items()} for batch in data()[:3]]
UNLABELLED = [{"input_ids": batch["input_ids"]} for batch in data()]
REFUSED: list[tuple[str, Any, dict[str, Any], Callable[[Any], None]]] = [
    ("no data", [], {"heads": 0.5}, _untouched),
    ("expected a target", data(), {}, _untouched),
    ("(?s)no labels.*--loss self. or random, which", UNLABELLED, {"heads": 0.5}, _untouched),
    (
        "(?s)expects at least .* tokens.*--examples.*--repair scales",
        FEW,
        {"heads": 0.5, "method": "random"},
        _untouched,
    ),
    ("at least 3 examples", FEW[:2], {"heads": 0.5}, _untouched),
    ('"self" or "embedding" or a function, got 3', data(), {"heads": 4, "loss": 3}, _untouched),
    ("`macs` expects at least 0.0", data(), {"macs": 1e-9}, _untouched),
    ("`parameters` expects at least 0.2", data(), {"parameters": 0.01}, _untouched),
    ("`parameters` expects at least 0.3", data(), {"parameters": 0.01, "layers": 0}, _untouched),
    ("`megabytes` expects less than 0.1", data(), {"megabytes": 9}, _untouched),
    ("`megabytes` expects at least 0.", data(), {"megabytes": 1e-3}, _untouched),
    ("at most 7 heads, got 8", data(), {"heads": 8}, _untouched),
    (
        "`score` expects a function of the model, got 3",
        data(),
        {"heads": 4, "score": 3},
        _untouched,
    ),
    ("no repair 'prayer'", data(), {"heads": 4, "repair": "prayer"}, _untouched),
    ("no method of choosing 'luck'", data(), {"heads": 4, "method": "luck"}, _untouched),
    ("`on` expects at most", data(), {"heads": 4, "on": (1, 9999)}, _untouched),
    ("not a finite number", data(), {"heads": 4}, _nan),
]


@pytest.mark.parametrize(("message", "batches", "options", "change"), REFUSED)
def test_an_error_leaves_the_model_as_it_was(message, batches, options, change):
    model = build().train()
    change(model)
    before = unseen(model), state(model)
    with pytest.raises((DeadheadError, DataError, UnknownName), match=message):
        shrink(model, batches, **{**QUIET, **options})
    assert before[0] == unseen(model)
    assert is_same(before[1], state(model))


def test_a_model_without_known_layers_is_refused():
    with pytest.raises(UnknownArchitecture):
        shrink(torch.nn.Sequential(torch.nn.Linear(4, 4)), data(), heads=0.5, **QUIET)


def test_a_model_inside_gates_is_refused():
    model = build()
    with gated(model, closed=["encoder.0.0"]), pytest.raises(DeadheadError, match="without gates"):
        shrink(model, data(), heads=0.5, **QUIET)


def test_an_error_in_the_middle_leaves_the_model_as_it_was():
    calls = []

    def score(model):
        calls.append(1)
        if len(calls) == 2:  # the model is cut by gates
            raise RuntimeError("stop")

    model = build()
    before = unseen(model), state(model)
    with pytest.raises(RuntimeError, match="stop"):
        shrink(model, data(), heads=0.5, score=score, **QUIET)
    assert before[0] == unseen(model)
    assert is_same(before[1], state(model))


class Clock:
    """A microsecond for every parameter; single layers, as the table times them, by a factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, calls, device, rounds, **options):
        times = []
        for call in calls:
            part = getattr(call, "func", None)
            is_layer = isinstance(part, torch.nn.Module)
            timed = part if is_layer else call.args[0]
            count = sum(p.numel() for p in timed.parameters())
            times.append([1e-6 * count * (self.factor if is_layer else 1)] * rounds)
        return times


@pytest.mark.parametrize("factor", [1.0, 2.0, 0.8])
def test_a_speed_up_is_reached_even_if_the_table_is_wrong(factor, monkeypatch):
    monkeypatch.setattr(timing, "in_turns", Clock(factor))
    model = build()
    report = shrink(model, data(), speedup=1.5, repair="none", **QUIET)
    assert report.speed is not None
    assert report.speed.target == 1.5
    assert 1.5 * 0.99 < report.speed.measured < 1.5 * 1.1
    assert report.speed.predicted == pytest.approx(report.speed.measured, rel=0.05)
    before, after = report.sizes["parameters"]
    assert report.speed.measured == pytest.approx(before / after)


def test_a_speed_up_that_cannot_be_is_refused(monkeypatch):
    monkeypatch.setattr(timing, "in_turns", Clock())
    model = build()
    before = unseen(model), state(model)
    with pytest.raises(DeadheadError, match=r"`speedup` expects at most about \d+.*, got 500"):
        shrink(model, data(), speedup=500, **QUIET)
    monkeypatch.setattr(timing, "in_turns", Clock(1.3))  # the table promises too much
    with pytest.raises(DeadheadError, match=r"`speedup` expects at most about \d+.*, got 6"):
        shrink(model, data(), speedup=6, **QUIET)
    assert before[0] == unseen(model)
    assert is_same(before[1], state(model))


@pytest.mark.parametrize("how", ["autocast", "compiled", "compiled in place"])
def test_autocast_and_compiled_models_are_computed_as_written(how):
    """Autocast rounds sums until they have no inverse; torch would compile each hook again."""
    expected, model = build(), build()
    whole = shrink(expected, data(), macs=0.6, **QUIET)
    wrapped: Any = model
    if how == "compiled":
        wrapped = torch.compile(model, backend="eager")
    elif how == "compiled in place":
        model.compile(backend="eager")
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        report = shrink(wrapped, data(), macs=0.6, **QUIET)
        assert torch.is_autocast_enabled("cpu") == (how == "autocast")
    assert (report.choice.heads, report.choice.neurons) == (
        whole.choice.heads,
        whole.choice.neurons,
    )
    torch.testing.assert_close(dict(model.state_dict()), dict(expected.state_dict()))
