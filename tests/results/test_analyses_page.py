"""Every example of the page on analyses prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "analyses.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def test_examples_print_what_they_say():
    """In their order: later ones use what earlier ones define."""
    names = {}
    for code in BLOCKS:
        expected = [
            line.rsplit("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")
        ]
        assert expected
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(PAGE), "exec"), names)
        assert out.getvalue().splitlines() == expected
