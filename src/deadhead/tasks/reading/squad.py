"""The JSON of SQuAD, which XQuAD, TyDi QA (GoldP) and MLQA share.

Articles have paragraphs, each of a context and its questions.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.tasks.task import Row, Task

from .lines import bad, lines, shorten
from .records import collect

# fmt: off
TYDI = {  # languages of TyDi QA, whose files hold all of them; ids begin with the name
    "arabic": "ar", "bengali": "bn", "english": "en", "finnish": "fi", "indonesian": "id",
    "korean": "ko", "russian": "ru", "swahili": "sw", "telugu": "te",
}
# fmt: on


def read_squad(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **options: Any
) -> list[Row]:
    """Read a file of SQuAD; of one of TyDi QA the questions in the language."""
    (path,) = files.values()
    text = "".join(line for _, line in lines(path, ends=True))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "give the whole file of SQuAD; a file with one record a line is named .jsonl"
        raise bad(path, getattr(error, "lineno", 0), f"not JSON ({error}).", hint) from error
    records = _records(path, content, str(options.get("lang")))
    return collect(((0, record) for record in records), path, task, notes, options)


def _records(path: Path, content: Any, lang: str) -> Iterator[Mapping[str, Any]]:
    for article in _list(path, content, "data"):
        for paragraph in _list(path, article, "paragraphs"):
            for question in _list(path, paragraph, "qas"):
                own = TYDI.get(str(question.get("id")).partition("-")[0], lang)
                if own == lang:
                    yield {"context": paragraph.get("context"), **question}


def _list(path: Path, value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = value.get(name) if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        message = f"not the JSON of SQuAD: expected a list of objects `{name}` in {shorten(value)}."
        hint = "the levels are data, paragraphs and qas; a file with one record a line is .jsonl"
        raise bad(path, 0, message, hint)
    return items
