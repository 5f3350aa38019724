"""`deadhead recipes`: list the built-in recipes."""

import typer

from ._options import AsJson
from ._progress import print_json


def recipes(as_json: AsJson = False) -> None:
    """List the built-in recipes, one line each."""
    from deadhead.studies import built_in
    from deadhead.studies.recipe.yaml import read

    abouts = {}
    for name, file in built_in().items():
        stored = read(file.read_text(encoding="utf-8"), name).data
        abouts[name] = str(stored.get("about", "")) if isinstance(stored, dict) else ""
    if as_json:
        rows = [{"name": name, "about": about} for name, about in abouts.items()]
        print_json(rows)
        return
    width = max(map(len, abouts), default=0)
    for name, about in abouts.items():
        typer.echo(f"{name:{width}}  {about}")
