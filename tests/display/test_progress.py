"""Progress: a bar in a terminal, a line that changes in a notebook, nothing in a log."""

import sys
from types import ModuleType

import pytest
import rich.console

from deadhead.display import progress
from deadhead.display.progress import counting, reported, silent
from deadhead.training.progress import Progress as TrainingProgress


class Clock:
    """A time that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


@pytest.fixture
def pages(monkeypatch):
    """What a notebook displays: for each display the texts it had, one after the other."""
    displays: list[list[str]] = []

    class Display:
        def __init__(self, page):
            self.pages = [page]
            displays.append(self.pages)

        def update(self, page):
            self.pages.append(page)

    module = ModuleType("IPython.display")
    module.HTML = str  # type: ignore[attr-defined]
    module.display = lambda page, display_id: Display(page)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    return displays


def test_a_notebook_changes_a_few_times_a_second(pages, clock):
    with counting("taylor <b>") as count:
        for done in range(1, 1001):
            clock.now += 0.01
            count(done, 1000)
    assert len(pages) == 1
    assert 20 <= len(pages[0]) <= 50
    assert "taylor &lt;b&gt; 1000/1000, 10 s" in pages[0][-1]
    with counting("quick") as count:
        clock.now += 0.1
        count(1, 1)
    assert len(pages) == 1


def test_a_training_shows_its_last_update(pages):
    with TrainingProgress(True, epochs=2, updates=3, examples=6, name="mine") as show:
        for epoch in (1, 2):
            for update in (1, 2, 3):
                show(epoch, update, 0.5)
    assert len(pages) == 1
    assert "mine  epoch 2/2  update 3/3  loss 0.5000" in pages[0][-1]


def test_a_log_stays_empty(capsys):
    with counting("taylor") as count:
        count(1, 2)
    with TrainingProgress(True, epochs=1, updates=1, examples=1) as show:
        show(1, 1, 0.5)
    assert capsys.readouterr() == ("", "")


def test_the_argument_is_a_bar_nothing_or_a_function(pages, clock):
    calls = []
    with reported(lambda *facts: calls.append(facts), "mine") as count:
        count(1, 2, "half")
    assert calls == [(1, 2, "half")]
    with reported(False, "mine") as count:
        assert count is silent
    assert pages == []
    with reported(True, "mine") as count:
        clock.now += 1
        count(1, 2)
    assert "mine 1/2" in pages[0][0]


def test_the_log_of_a_command_has_a_line_for_each_stage(clock):
    """And one now and then in a long stage; a function that is called from Python says nothing."""
    lines: list[str] = []
    progress.stage("before")
    with progress.logged(lines.append):
        progress.stage("loading model")
        with counting("taylor") as count:
            for done in range(1, 5):
                clock.now += 20
                count(done, 4)
    progress.stage("after")
    assert lines == ["loading model", "taylor 2/4", "taylor 4/4"]
