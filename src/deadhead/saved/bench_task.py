"""What models cost on the data of a task, and how well they do there: one model, or two in turns.

The score is that of all examples. The time is that of random examples with about TIMED tokens, in
batches of the sizes that are named, sorted by length as in an evaluation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadhead.display.progress import Progress, reported, stage
from deadhead.forward import device_of
from deadhead.numerics import computing, device_named
from deadhead.tasks import Batches, Dataset, Encoded
from deadhead.tasks.dataset import shuffled
from deadhead.training.models import check_data, encode_for, load_with_tokenizer, outline

from .bench import check_numbers, machine, make_row, peak_row, run_rows, size_rows
from .rank_data import count_examples, main_scores

TIMED = {"cpu": 2048, "cuda": 65536}  # tokens to time, over all sets


@dataclass(frozen=True)
class _Loaded:
    model: Any
    encoded: dict[str, Encoded]
    scores: dict[str, float]  # set -> main metric


def bench_task(
    names: Sequence[str],
    sets: Mapping[str, Dataset],
    *,
    batches: Sequence[int] = (1, 8),
    max_length: int | None = None,
    repeats: int = 10,
    seed: int = 0,
    device: str | None = None,
    auto: str | None = None,
    dtype: str | None = None,
    progress: bool | Progress = True,
) -> dict[str, Any]:
    """Measure a model, or two side by side, on data of a task.

    sets: the data by language. dtype: of the weights; by default float32 on a CPU, else as saved.
    """
    check_numbers(batch=batches, repeats=[repeats])
    place = device_named(device)
    how = {"auto": auto, "dtype": dtype}
    check_data([outline(name, **how) for name in names], sets.values(), max_length)
    stages = len(names) + len(batches) + 1
    with reported(progress, "bench") as show:
        models = []
        for number, name in enumerate(names):
            show(number, stages, f"scoring {name}")
            stage(f"scoring {name}")
            models.append(_score(name, sets, place, max_length, how))
        rows = size_rows(names, [loaded.model for loaded in models])
        rows += _score_rows(models, sets)
        for number, size in enumerate(batches):
            show(len(names) + number, stages, f"timing batches of {size}")
            stage(f"timing batches of {size}")
            rows += _time_rows(models, size, max(batches), repeats=repeats, seed=seed)
        show(stages - 1, stages, "measuring memory")
        precision = str(models[0].model.dtype).removeprefix("torch.")
        shapes = [_largest(loaded, max(batches), seed) for loaded in models]
        rows.append(peak_row(names, shapes, (str(place), auto or "", precision)))
    against = names[1] if len(names) > 1 else None
    about = next(iter(sets.values()))
    facts = {"task": about.task.name, "split": about.split, "precision": precision}
    return {"model": names[0], "against": against, **machine(place), **facts, "rows": rows}


def _score(
    name: str, sets: Mapping[str, Dataset], place: Any, max_length: int | None, how: dict[str, Any]
) -> _Loaded:
    model, tokenizer = load_with_tokenizer(name, place, **how)
    encoded = {lang: encode_for(model, tokenizer, data, max_length) for lang, data in sets.items()}
    scores = main_scores(model, encoded, tokenizer)
    return _Loaded(model.eval(), encoded, scores)


def _score_rows(models: list[_Loaded], sets: Mapping[str, Dataset]) -> list[dict[str, Any]]:
    """The main metric on each set, and the number of examples it is from."""
    rows = []
    for language, data in sets.items():
        metric = data.task.metric
        values = [loaded.scores[language] for loaded in models]
        extra = {"metric": metric, "examples": count_examples(models[0].encoded[language])}
        rows.append({**make_row(f"{metric} {language} {data.split}", values), **extra})
    return rows


def _time_rows(
    models: list[_Loaded], size: int, most: int, *, repeats: int, seed: int
) -> list[dict[str, Any]]:
    drawn = [_draw(loaded, size, most, seed) for loaded in models]
    feeds = [[batch for part in parts for batch in part] for parts in drawn]
    with computing(models[0].model):
        rows = run_rows(f"in batches of {size}", [m.model for m in models], feeds, repeats)
    tokens = [sum(int(batch["attention_mask"].sum()) for batch in feed) for feed in feeds]
    seconds = [value for name in ("model", "against") if (value := rows[-1][name]) is not None]
    speeds = [count / time for count, time in zip(tokens, seconds, strict=True)]
    row = make_row(f"tokens per second in batches of {size}", speeds)
    if len(models) > 1 and tokens[0] == tokens[1]:  # median of the rounds, as for the seconds
        row["ratio"] = 1 / rows[-1]["ratio"]
    return [*rows, {**row, "tokens": tokens}]


def _draw(loaded: _Loaded, size: int, most: int, seed: int) -> list[Batches]:
    """Random windows of each set in batches of a size; the same windows for every size.

    They have TIMED tokens in all, and are enough for a batch of the largest size.
    """
    device = device_of(loaded.model)
    room = TIMED.get(device.type, TIMED["cpu"]) // len(loaded.encoded)
    parts = []
    for encoded in loaded.encoded.values():
        lengths = np.asarray(encoded.arrays["lengths"])
        order = np.array(shuffled(len(encoded), f"bench/{seed}"))
        count = max(most, int(np.searchsorted(lengths[order].cumsum(), room)) + 1)
        numbers = order[:count]
        numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
        groups = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        parts.append(Batches(encoded, tuple(groups), device))
    return parts


def _largest(loaded: _Loaded, size: int, seed: int) -> tuple[int, int]:
    """The examples and tokens of the largest batch that was timed."""
    shapes = [
        (len(numbers), int(np.asarray(part.encoded.arrays["lengths"])[numbers].max()))
        for part in _draw(loaded, size, size, seed)
        for numbers in part.numbers
    ]
    return max(shapes, key=lambda shape: shape[0] * shape[1])
