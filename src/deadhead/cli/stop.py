"""`deadhead stop`: stop a running study."""

from typing import Annotated

import typer
from typer import Option

from ._options import Study


def stop(
    study: Study,
    now: Annotated[
        bool, Option("--now", help="Stop at once, without finishing the running trials.")
    ] = False,
) -> None:
    """Stop a running study after its running trials. `deadhead run` resumes it later.

    Example:

        deadhead stop my-study
    """
    from deadhead.studies import stop as request_stop

    if not request_stop(study, now=now):
        typer.echo("the study is not running.")
    elif now:
        typer.echo("the study stops at once.")
    else:
        typer.echo("the study stops when its running trials are finished.")
