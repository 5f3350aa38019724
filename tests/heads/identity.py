"""The identity that most tests of pruning are about: masked = pruned = reloaded = padded."""

from deadhead.heads import discover, gated, load, prune, save
from tiny_models import answers, apart, hooks, limit


def prune_as_masked(model, heads=(), folder=None, forms=("compact", "padded"), *, near=0.0, **how):
    """Prune a model and save it in these forms: all give the masked answers, which are returned.

    near: how far from the masked answers those of a loaded model may be; how: as for `prune`.
    """
    heads, neurons, fill = list(heads), how.get("neurons"), how.get("fill") or "zero"
    whole, clean, near = answers(model), hooks(model), near or limit(model)
    expected = discover(model, neurons=True).without(heads, neurons).kept
    size = model.num_parameters()
    with gated(model, closed=heads, neurons=neurons, fill=fill):
        masked = answers(model)
    assert apart(whole, masked) > 1e-2
    assert hooks(model) == clean
    assert apart(whole, answers(model)) == 0
    assert prune(model, heads, **how) is model
    assert discover(model, neurons=True).kept == expected
    assert apart(masked, answers(model)) < limit(model)
    assert model.num_parameters() < size or "groups" in how or fill != "zero"
    for form in () if folder is None else forms:
        again = load(save(model, folder / form, form=form)).eval()
        assert type(again) is type(model)
        assert apart(masked, answers(again)) < near
        assert discover(again, neurons=True) == discover(model, neurons=True)
        assert again.config.deadhead == model.config.deadhead
        if form == "padded":
            padded = type(model).from_pretrained(folder / form).to(model.dtype).eval()
            assert apart(masked, answers(padded)) < near
    return masked
