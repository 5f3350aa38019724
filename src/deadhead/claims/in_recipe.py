"""Load a recipe and check the claims it names, which the studies do not know."""

from __future__ import annotations

from collections.abc import Sequence

from deadhead.errors import UnknownName
from deadhead.studies.recipe.load import Recipe, load
from deadhead.studies.recipe.yaml import RecipeError


def load_recipe(name: str, overrides: Sequence[str] = (), scale: str | None = None) -> Recipe:
    recipe = load(name, overrides, scale)
    for i, claim in enumerate(recipe.data.get("claims") or ()):
        from deadhead.claims import named  # reads every paper, so only if a claim is named

        try:
            named(claim)
        except UnknownName as problem:
            raise RecipeError(
                f"{recipe.where(('claims', i))}: {problem.message}",
                "deadhead claims --published lists them",
            ) from None
    return recipe
