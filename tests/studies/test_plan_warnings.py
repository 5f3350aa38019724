"""What a recipe may ask for and its user hardly wants is reported before it runs."""

import pytest

from deadhead.studies import load, plan


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "prune, finetune",
            "No step scores the model after finetune, so there will be no scores to show: end "
            "steps with evaluate.",
        ),
        ("prune, finetune, rank", ""),
    ],
)
def test_a_recipe_that_scores_nothing(tmp_path, steps, message):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"steps: [{steps}]\nfixed: {{model: m, task: pos, source: en, data: {{root: world}}, "
        f"remove: {{random: 50}}}}\n"
    )
    assert plan(load(recipe)).warnings == ((message,) if message else ())
