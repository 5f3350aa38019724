"""Predictions of batches in the order of the rows, collected one by one: slow, easy to check."""

from typing import Any

import numpy as np


def collect(batches, outputs):
    """Return predictions in the order of the rows, ready for `score`.

    outputs: for each batch the predicted label numbers (for each position or row), or the texts.
    """
    encoded = batches.encoded
    unit, names, source = encoded.data.task.traits.label_unit, encoded.labels, encoded.arrays
    outside = "O" if "O" in names else (names or ("",))[0]  # for words that were cut off
    rows = encoded.data.rows
    predictions: list[Any] = [[outside] * len(r.texts) if unit == "word" else None for r in rows]
    for numbers, output in zip(batches.numbers, outputs, strict=True):
        for n, predicted in zip(numbers, output, strict=True):
            row = int(source["rows"][n])
            if unit == "text":
                predictions[row] = predicted
            elif unit == "row":
                predictions[row] = names[int(predicted)]
            else:
                words = source["words"][encoded.starts[n] : encoded.starts[n + 1]]
                for position in np.flatnonzero(words >= 0):
                    predictions[row][words[position]] = names[int(predicted[position])]
    return predictions
