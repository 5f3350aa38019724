"""`deadhead clean`: delete trained models that a study no longer needs."""

import typer

from ._options import Study
from ._progress import plural, size_text


def clean(study: Study) -> None:
    """Delete the trained models of a study that no trial needs. All results are kept.

    Trials start from these models. A study that is extended later trains what it needs again.

    Example:

        deadhead clean my-study
    """
    from deadhead.studies import clean as delete_models

    models, size = delete_models(study)
    if models:
        typer.echo(f"{plural(models, 'trained model')} deleted, {size_text(size)} freed.")
    else:
        typer.echo("there is nothing to delete.")
