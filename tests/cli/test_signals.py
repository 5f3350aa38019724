"""What a command says on Ctrl-C and SIGTERM, and its exit code."""

import os
import signal

import pytest
from command_line import Done

PRUNE = ("prune", "--remove-heads", "encoder.0.1")


@pytest.fixture
def interrupted_at(monkeypatch):
    """Send this process a signal where a function is called, with the handlers of a terminal."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def send(number, name):
        monkeypatch.setattr(name, lambda *_, **__: os.kill(os.getpid(), number))

    yield send
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    ("words", "option", "place"),
    [
        (PRUNE, "--out", "deadhead.saved.prune.load"),
        (("export",), "--onnx", "deadhead.exports.onnx.export.exported"),
        (("export",), "--gguf", "deadhead.exports.gguf.export.exported"),
    ],
)
def test_nothing_was_written(
    number, code, words, option, place, bert, tmp_path, run_command, interrupted_at
):
    interrupted_at(number, place)
    out = tmp_path / "out"
    done = run_command(words[0], bert, *words[1:], option, out)
    assert done == Done(code, "", f"interrupted: nothing was written to {out}.\n")
    assert not out.exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_written_output_is_complete(bert, tmp_path, run_command, interrupted_at):
    interrupted_at(signal.SIGTERM, "deadhead.cli.prune._print_pruned")
    done = run_command(*PRUNE[:1], bert, *PRUNE[1:], "--out", tmp_path / "small")
    last = done.err.splitlines()[-1]
    assert (done.code, last) == (143, f"interrupted: {tmp_path / 'small'} is complete.")


def test_a_command_without_an_output(bert, run_command, interrupted_at):
    interrupted_at(signal.SIGINT, "deadhead.heads.load")
    assert run_command("heads", bert) == Done(130, "", "interrupted: nothing was written.\n")
