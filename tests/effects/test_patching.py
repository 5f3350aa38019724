"""Patching all heads at once against one run per head, for every kind of model; and bad input."""

from typing import Any

import pytest
import torch
from torch import Tensor

from architectures.tiny import tiny
from deadhead import patch_effects
from deadhead.effects import logit_difference
from deadhead.errors import DataError, HeadError
from deadhead.forward import forward
from deadhead.heads import discover, prune
from deadhead.heads.discover import find_sites
from deadhead.heads.hooks import attach
from deadhead.layout import Head
from deadhead.registry.options import OptionError
from deadhead.verify.inputs import batch_for
from near_pairs import difference

# decoder, grouped heads, encoder, both, time first, one layer's weights used twice
FAMILIES = ["gpt2", "llama", "bert", "bart", "xlnet", "albert"]

Batch = dict[str, Tensor]


def pair(family):
    """A model, a batch with padding, and the same batch with other tokens in place of some."""
    model = tiny(family).double().eval()
    clean = batch_for(model)
    corrupt = dict(clean)
    ids = clean["input_ids"]
    corrupt["input_ids"] = torch.where(ids > 3, (ids * 7) % 80 + 9, ids)
    assert not bool(clean["attention_mask"].all())
    return model, clean, corrupt


@torch.no_grad()
def one_run_per_head(model, source, target, position=None):
    """The usual loop, with hooks of its own."""
    contexts: dict[Any, list[Tensor]] = {}
    sites = find_sites(model)
    undo = [
        attach(s, lambda x, s=s: contexts.setdefault((s.block, s.layer), []).append(x) or x)
        for s in sites
    ]
    forward(model, source)
    for remove in undo:
        remove()
    values = {}
    for site in sites:
        for column, index in enumerate(site.kept):
            calls = iter(contexts[site.block, site.layer])
            features = slice(column * site.width, (column + 1) * site.width)
            place: Any = (..., features)
            if position is not None:
                both = (slice(None), position)
                place = (*(both[::-1] if site.time_first else both), features)

            def patch(context, calls=calls, place=place):
                patched, other = context.clone(), next(calls)
                patched[place] = other[place]
                return patched

            remove = attach(site, patch)
            value = float(difference(forward(model, target), target).mean())
            values[Head(site.block, site.layer, index), position] = value
            remove()
    return values


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    assert max(abs(got[place] - expected[place]) for place in expected) < 1e-10


def hooks_of(model):
    return [
        (len(m._forward_pre_hooks), len(m._forward_hooks), "forward" in vars(m), m.training)
        for m in model.modules()
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_one_run_per_head(family):
    model, clean, corrupt = pair(family)
    effects = patch_effects(model, clean, corrupt, difference)
    assert_same(effects.values, one_run_per_head(model, clean, corrupt))
    assert {head for head, _ in effects.values} == set(discover(model))
    assert max(map(abs, effects.effect.values())) > 1e-3
    for run, batch in ((effects.clean, clean), (effects.corrupt, corrupt)):
        with torch.no_grad():
            assert run == pytest.approx(float(difference(forward(model, batch), batch).mean()))


@pytest.mark.parametrize("family", ["bart", "xlnet"])
def test_into_the_clean_run_and_at_one_position(family):
    model, clean, corrupt = pair(family)
    effects = patch_effects(model, clean, corrupt, difference, into="clean", positions=[-2])
    assert_same(effects.values, one_run_per_head(model, corrupt, clean, -2))
    other = patch_effects(model, clean, corrupt, difference, into="corrupt", positions=[-2])
    assert (effects.clean, effects.corrupt) == pytest.approx((other.clean, other.corrupt))
    assert effects.values != other.values
    assert max(map(abs, effects.effect.values())) > 1e-3


@pytest.mark.parametrize("tokens", [1, 200, 10**6])
def test_how_many_heads_are_in_a_pass_changes_nothing(tokens):
    model, clean, corrupt = pair("bart")
    options: dict[str, Any] = {"positions": "each", "heads": ["cross.1.2", "encoder.0.1"]}
    effects = patch_effects(model, clean, corrupt, difference, tokens=tokens, **options)
    lengths = {"encoder": clean["input_ids"].shape[1], "cross": clean["decoder_input_ids"].shape[1]}
    places = {
        (Head.parse(name), position)
        for name in options["heads"]
        for position in range(lengths[name.split(".")[0]])
    }
    assert set(effects.values) == places
    for position in (0, lengths["cross"] - 1):
        expected = one_run_per_head(model, clean, corrupt, position)
        for name in options["heads"]:
            place = (Head.parse(name), position)
            assert effects.values[place] == pytest.approx(expected[place], abs=1e-10)


def test_the_rows_that_longformer_adds_are_no_positions():
    model, clean, corrupt = pair("longformer")
    length = clean["input_ids"].shape[1]
    assert length % 8
    each = patch_effects(model, clean, corrupt, difference, positions="each")
    assert {position for _, position in each.values} == set(range(length))
    last = patch_effects(model, clean, corrupt, difference, positions=[-1])
    assert_same(last.values, {(head, -1): each.values[head, length - 1] for head, _ in last.values})
    assert max(map(abs, each.effect.values())) > 1e-3


def test_batches_do_not_change_the_effects():
    model, clean, corrupt = pair("gpt2")
    together = patch_effects(model, clean, corrupt, difference)
    rows = range(len(clean["input_ids"]))
    single = [
        [{name: value[i : i + 1] for name, value in batch.items()} for i in rows]
        for batch in (clean, corrupt)
    ]
    apart = patch_effects(model, *single, difference)
    assert_same(apart.values, together.values)
    assert apart.examples == together.examples == len(rows) > 1
    assert apart.clean == pytest.approx(together.clean)


def test_the_metric_sees_its_own_batch():
    """Not the copies: a metric may use what it knows about each example."""
    model, clean, corrupt = pair("gpt2")
    answers = torch.arange(len(clean["input_ids"])) + 4
    labelled = [{**clean, "labels": answers[:, None]}, corrupt]  # the labels of both
    seen = []

    def from_labels(outputs, batch):
        seen.append(len(outputs.logits))
        return outputs.logits[:, 2].gather(1, batch["labels"])[:, 0]

    def from_outside(outputs, batch):
        return outputs.logits[torch.arange(len(answers)), 2, answers]

    first = patch_effects(model, *labelled, from_labels)
    assert first.values == patch_effects(model, clean, corrupt, from_outside).values
    assert set(seen) == {len(answers)}


def test_the_same_run_has_no_effect_and_the_whole_layer_restores_the_clean_one():
    model, clean, corrupt = pair("bert")
    same = patch_effects(model, clean, clean, difference)
    assert max(map(abs, same.effect.values())) < 1e-12
    assert all(value != value for value in same.normalised.values())  # nan: clean is corrupt
    effects = patch_effects(model, clean, corrupt, difference)
    span = effects.clean - effects.corrupt
    for place, effect in effects.effect.items():
        assert effects.normalised[place] == pytest.approx(effect / span)


def test_pruned_heads_are_not_patched():
    model, clean, corrupt = pair("bert")
    cut = ["encoder.0.1", "encoder.1.0"]
    pruned = prune(model, cut)
    effects = patch_effects(pruned, clean, corrupt, difference)
    assert_same(effects.values, one_run_per_head(pruned, clean, corrupt))
    assert not {str(head) for head, _ in effects.values} & set(cut)


def test_the_model_is_left_as_it_was():
    model, clean, corrupt = pair("bert")
    model.train()
    before, weights = hooks_of(model), {n: v.clone() for n, v in model.state_dict().items()}
    assert patch_effects(model, clean, corrupt, difference) == patch_effects(
        model, clean, corrupt, difference
    )  # without dropout

    def broken(outputs, batch):
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        patch_effects(model, clean, corrupt, broken)
    assert hooks_of(model) == before
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_pairs_that_do_not_fit_are_refused():
    model, clean, corrupt = pair("bert")

    def refuses(message, first, second):
        with pytest.raises(DataError, match=message):
            patch_effects(model, first, second, difference)

    shorter = {name: value[:, :-1] for name, value in corrupt.items()}
    refuses(r"input_ids of clean batch 0 has shape \(\d, \d+\), of corrupt", clean, shorter)
    refuses("got 2 clean batches and 1 corrupt", [clean, clean], corrupt)
    mask = corrupt["attention_mask"].clone()
    mask[1] = 1 - mask[1]
    refuses(
        "attention_mask of example 1 of batch 0 differs", clean, {**corrupt, "attention_mask": mask}
    )
    refuses("`clean` expects a batch or a list of batches, got an empty list", [], [])
    refuses("`corrupt` expects a batch or a list of batches, got int", clean, 3)
    refuses("clean batch 0 has no inputs; it has: labels", {"labels": mask}, corrupt)
    refuses(
        "corrupt batch 0 has no tensor 'token_type_ids'", {**clean, "token_type_ids": mask}, corrupt
    )


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda outputs, batch: outputs.logits.mean(), r"metric function gave .*shape \(\)"),
        (lambda outputs, batch: 1.0, "metric function gave float"),
        (
            lambda outputs, batch: outputs.logits.mean((1, 2)) * float("nan"),
            "metric of example 0 is not a finite number in the clean run",
        ),
    ],
)
def test_metrics_that_give_something_else_are_refused(metric, message):
    model, clean, corrupt = pair("bert")
    before = hooks_of(model)
    with pytest.raises(DataError, match=message):
        patch_effects(model, clean, corrupt, metric)
    assert hooks_of(model) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": ["encoder.0.9"]}, "expected one of the 4 heads of its layer, got 9"),
        ({"heads": []}, "there is no head to patch"),
        ({"positions": [99]}, "position 99 is outside the"),
        ({"positions": [11, -1]}, r"expects each position once, got one of \[11, -1\] twice"),
        ({"tokens": 0}, "`tokens` expects a whole number from 1, got 0"),
        ({"positions": "all"}, '`positions` expects "each" or a list of whole numbers'),
        ({"into": "both"}, "`into` expects corrupt or clean, got 'both'"),
    ],
)
def test_bad_options_are_refused(options, message):
    model, clean, corrupt = pair("bert")
    assert clean["input_ids"].shape[1] == 12
    with pytest.raises((DataError, HeadError, OptionError), match=message):
        patch_effects(model, clean, corrupt, difference, **options)


def test_positions_of_batches_of_other_lengths_are_refused():
    model, clean, corrupt = pair("bert")
    both = [
        [batch, {name: value[:, :-1] for name, value in batch.items()}]
        for batch in (clean, corrupt)
    ]
    with pytest.raises(DataError, match="the batches have different lengths"):
        patch_effects(model, *both, difference, positions="each")
    assert patch_effects(model, *both, difference).examples == 2 * len(clean["input_ids"])


def test_logit_difference_counts_real_tokens():
    logits = torch.arange(2 * 4 * 3).reshape(2, 4, 3).float() ** 2
    outputs = type("Outputs", (), {"logits": logits})
    right, left = [[1, 1, 0, 0], [1, 1, 1, 1]], [[0, 0, 1, 1], [1, 1, 1, 1]]
    rows = {"right": (right, (1, 3), (0, 0)), "left": (left, (3, 3), (2, 0))}
    for mask, last, first in rows.values():
        ids = torch.ones(2, 4, dtype=torch.long)
        batch = {"input_ids": ids, "attention_mask": torch.tensor(mask)}
        for position, places in ((-1, last), (0, first)):
            expected = [float(logits[i, p, 2] - logits[i, p, i]) for i, p in enumerate(places)]
            metric = logit_difference(2, [0, 1], position)
            assert metric(outputs, batch).tolist() == expected
        for position in (-3, 2):
            with pytest.raises(DataError, match="outside an example of 2 tokens"):
                logit_difference(2, 0, position)(outputs, batch)
    with pytest.raises(DataError, match="needs logits"):
        logit_difference(2, 0)(type("Outputs", (), {}), batch)
    for wrong, message in (([0, 1, 2], "for each of 2 examples"), (3, "from 0 to 2")):
        with pytest.raises(DataError, match=message):
            logit_difference(2, wrong)(outputs, batch)
    for wrong in ("Mary", 2.0, True, [[1, 2]], None):
        with pytest.raises(DataError, match="expected a token as a whole number") as error:
            logit_difference(2, wrong)
        assert "convert_tokens_to_ids" in error.value.hint
    with pytest.raises(DataError, match="expected a position as a whole number"):
        logit_difference(2, 0, "last")
