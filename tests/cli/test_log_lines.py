"""What a command says on standard error while it works outside of a terminal."""

from deadhead.display.progress import logged


def test_a_line_for_each_stage_in_a_log_and_none_in_a_terminal(
    bert, tmp_path, run_command, monkeypatch
):
    monkeypatch.setattr("deadhead.cli._command.logged", logged)
    done = run_command("prune", bert, "--remove-heads", "encoder.0.1", "--out", tmp_path / "small")
    assert f"loading {bert}" in done.err.splitlines()
    text = tmp_path / "text.txt"
    text.write_text("hello hello\nhello\n", encoding="utf-8")
    words = ("--loss", "self", "--text", text, "--method", "taylor")
    done = run_command("rank", bert, *words, "--out", tmp_path / "r.json")
    assert done.err.splitlines()[-2:] == [f"loading {bert}", "ranking by taylor"]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "loading" not in run_command("heads", bert).err
