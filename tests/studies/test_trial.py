"""A trial is its content: what matters is in its id, and shared work has one key."""

from hypothesis import given
from hypothesis import strategies as st

from deadhead.studies.trial import settle

trial_fields = st.dictionaries(
    st.sampled_from(["model", "task", "source", "seed", "draw", "targets"]), st.integers(0, 3)
)


@given(trial_fields, st.randoms())
def test_an_id_is_the_content(fields, rng):
    """The order of fields and what no step uses do not matter; all else does."""
    fields = {**fields, "source": "en", "targets": "de", "model": str(fields.get("model", 0))}
    steps = ["finetune", "evaluate"]
    shuffled = list(fields.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (
        settle(steps, dict(shuffled)).id
        == settle(steps, {**fields, "rank": {"method": "lrp"}, "draw": 9}).id
    )
    for change in ({"model": "other"}, {"seed": 77}, {"targets": "zh"}, {"source": "zh"}):
        assert settle(steps, {**fields, **change}).id != settle(steps, fields).id


def test_what_does_not_matter_is_left_out():
    steps = ["finetune", "rank", "restart", "prune", "finetune", "evaluate"]
    base = {
        "model": "m",
        "task": "pos",
        "source": "en",
        "train": ["en", "de"],
        "targets": "de",
        "seed": 1,
    }
    lowest = settle(steps, {**base, "remove": {"lowest": 3}})
    assert list(lowest.steps) == steps
    assert lowest.languages(0) == ["en"]  # the ranking's own training
    assert lowest.languages(4) == ["en", "de"]
    assert settle(steps, {**base, "remove": {"lowest": 0}}).steps == ("finetune", "evaluate")
    drawn = settle(steps, {**base, "remove": {"random_k": 3}, "draw": 42})
    assert drawn.steps == ("prune", "finetune", "evaluate")
    assert (
        "train" not in drawn.content
    )  # nothing is ranked, so only what is trained on matters, whichever field named it
    assert settle(steps, {**base, "source": "zh", "remove": {"random_k": 3}, "draw": 42}) == drawn
    assert (
        settle(
            steps,
            {**base, "source": ["en", "de"], "train": None, "remove": {"random_k": 3}, "draw": 42},
        )
        == drawn
    )
    assert settle(steps, {**base, "train": None, "remove": {"random_k": 3}, "draw": 42}) != drawn
    assert settle(["finetune", "rank"], base).steps == (
        "finetune",
        "rank",
    )  # a ranking that is asked for itself


def test_shared_work_has_one_key():
    steps = ["finetune", "rank", "restart", "prune", "finetune", "evaluate"]
    base = {"model": "m", "task": "pos", "source": "en", "targets": "de"}
    one, two = (settle(steps, {**base, "remove": {"lowest": k}}) for k in (1, 2))
    assert one.keys == two.keys
    assert (
        len(one.keys) == 2
    )  # the training and the ranking; what comes after prune is the trial's own
    full = settle(steps, {**base, "remove": "none"})
    assert full.keys[0] == one.keys[0]  # the unpruned model is the one that was ranked
    assert settle(steps, {**base, "seed": 1, "remove": {"lowest": 1}}).keys[0] != one.keys[0]
    some = settle(
        steps,
        {**base, "train": ["en", "de"], "data": {"parts": {"de": 3}}, "remove": {"lowest": 1}},
    )
    assert some.keys == one.keys  # the ranking reads no German
    assert (
        settle(steps, {**base, "data": {"parts": {"en": 3}}, "remove": {"lowest": 1}}).keys[0]
        != one.keys[0]
    )
    other = settle(steps, {**base, "rank": {"method": "lrp"}, "remove": {"lowest": 1}})
    assert other.keys[0] == one.keys[0]
    assert other.keys[1] != one.keys[1]


def test_rankings_of_several_sources_are_shared():
    steps = ["rank_each", "restart", "prune", "finetune", "evaluate"]
    base = {
        "model": "m",
        "task": "pos",
        "source": ["en", "zh"],
        "targets": "de",
        "remove": {"lowest": 2},
    }
    md, sd = (settle(steps, {**base, "rank": {"merge": how}}) for how in ("md", "sd"))
    assert md.keys != sd.keys
    alone = settle(
        ["finetune", "rank", "restart", "prune", "finetune", "evaluate"],
        {**base, "source": "en", "train": ["en", "zh"]},
    )
    assert set(md.work) & set(sd.work) == set(md.work) - set(
        md.keys.values()
    )  # the rankings themselves are the same work
    assert set(alone.work) < set(md.work)
    assert len(md.work) == 2 * 2 + 1
    assert settle(steps, {**base, "remove": "none"}).steps == ("finetune", "evaluate")
