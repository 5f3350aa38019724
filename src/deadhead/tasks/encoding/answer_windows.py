"""Question answering as windows: the question, and a part of its context.

A long context becomes several windows that overlap. The labels of a window are the positions of the
first and the last token of the answer, or twice the first position where it does not have all of
the answer. Training uses the first of several answers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from deadhead.tasks.task import Row

from .tokenizer import Frame, Pieces, Window

OVERLAP = 128  # tokens that two windows share, or half of what fits besides the question
Offsets = list[tuple[int, int]]  # for each token, the characters where it begins and ends


def answer_windows(
    pieces: Pieces, rows: Sequence[Row], start: int, frame: Frame, room: int, notes: Counter[str]
) -> Iterator[Window]:
    """Yield the windows of each row; the first row has the number `start`.

    room: for question and context together. A question gets at most half of it.
    """
    questions = pieces.texts([row.texts[0] for row in rows])
    contexts = pieces.with_offsets([row.texts[1] for row in rows])
    for number, (row, question, (ids, offsets)) in enumerate(
        zip(rows, questions, contexts, strict=True), start
    ):
        notes["questions cut"] += len(question) > room // 2
        question = question[: room // 2]
        answer = _tokens_of(offsets, int(row.labels[1]), len(row.labels[2]))
        has_answer = False
        for begin, end in _parts(len(ids), room - len(question)):
            first = len(frame.before) + len(question) + len(frame.between)
            labels = [0, 0]
            if begin <= answer[0] <= answer[1] < end:
                has_answer = True
                labels = [place - begin + first for place in answer]
            after = [(-1, -1)] * len(frame.after)
            yield Window(
                number,
                frame.put(question, ids[begin:end]),
                labels,
                frame.segments(len(question), end - begin),
                offsets=[(-1, -1)] * first + offsets[begin:end] + after,
            )
        notes["contexts split"] += len(ids) > room - len(question)
        notes["answers that no window has"] += not has_answer


def _tokens_of(offsets: Offsets, start: int, length: int) -> tuple[int, int]:
    """Return the first and the last token that have a character of an answer."""
    first = next((i for i, (_, end) in enumerate(offsets) if end > start), len(offsets))
    begins = (i for i in range(len(offsets) - 1, -1, -1) if offsets[i][0] < start + length)
    return first, next(begins, -1)


def _parts(size: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of tokens, each as long as the room and overlapping the one before."""
    step = room - min(OVERLAP, room // 2)
    begin = 0
    while True:
        end = min(begin + room, size)
        yield begin, end
        if end == size:
            return
        begin += step
