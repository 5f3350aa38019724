"""What a command printed and its exit code, for the tests of commands."""

from typing import NamedTuple

from typer.testing import CliRunner

from deadhead.cli import app


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def message(self):
        """The error without its frame and its breaks of lines."""
        return " ".join(self.err.replace("│", " ").split())


def clean(done):
    return "Traceback" not in done.out + done.err


def output_of(*words):
    """The result of a command that succeeds; an error of deadhead is raised."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result
