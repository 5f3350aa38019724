"""Run a model on a dataset, in large batches by length, without waiting for the device."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from deadhead.display.progress import Progress, silent
from deadhead.embedding import embedder_of
from deadhead.errors import DataError
from deadhead.forward import (
    IGNORED,
    device_of,
    forward,
    precise,
    predicts_next,
    token_limit,
    vocabulary_sizes,
)
from deadhead.heads.means import evaluating
from deadhead.numerics import computing
from deadhead.rankers.loss import class_logits
from deadhead.tasks import Encoded, batches
from deadhead.tasks.dataset import DOCUMENT, QUERY
from deadhead.tasks.encoding.feed import Feed
from deadhead.tasks.encoding.text_windows import WINDOW_ARRAYS
from deadhead.tasks.metrics import WINDOW_COUNTS

from .update import loss_sum, ready

# Positions of a batch, padding included. Larger batches gain nothing: the device or cache is full.
TOKENS = {"cpu": 4096, "cuda": 65536}
# Logits of a batch of a language model, which has one for each position and word of the vocabulary.
LOGITS = {"cpu": 2**27, "cuda": 2**31}
FURTHER = 50  # tokens that a translation may be longer than its source
LONGEST_ANSWER = 30  # tokens of an answer to a question
FOUND = 100  # documents of each query, which recall@100 needs
SIMILARITIES = 2**24  # pairs of queries and documents at a time
PENALTY = 0.6  # the exponent of the length, by whose power a beam's log-probability is divided


Work = Callable[[Any, dict[str, Tensor]], Tensor]  # what is computed of each batch


def label_numbers(
    model: Any, encoded: Encoded, sizes: np.ndarray, tokens: int | None
) -> np.ndarray:
    """The number of the label of each word (or row), in the order of the rows."""
    by_word = encoded.data.task.traits.label_unit == "word"
    places = _places(encoded, sizes) if by_word else np.asarray(encoded.arrays["rows"], np.int64)
    # words that were cut off count as outside, or as the first label
    default = encoded.labels.index("O") if "O" in encoded.labels else 0
    labels = np.full(int(sizes.sum()), default, np.int64)
    for numbers, output in _run(model, encoded, tokens, _classes):
        classes = output.cpu().numpy()
        if not by_word:
            labels[places[numbers]] = classes
            continue
        for row, n in enumerate(numbers):
            window = places[encoded.starts[n] : encoded.starts[n + 1]]
            first = window >= 0  # only the first piece of a word has a place
            labels[window[first]] = classes[row, : len(window)][first]
    return labels


def _places(encoded: Encoded, sizes: np.ndarray) -> np.ndarray:
    """The place of each position's word among all words; -1 if no word begins there."""
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    words = np.asarray(encoded.arrays["words"], np.int64)
    rows = np.asarray(encoded.arrays["rows"], np.int64)
    rows = np.repeat(rows, np.asarray(encoded.arrays["lengths"]))
    return np.where(words >= 0, begins[rows] + words, -1)


def _classes(model: Any, batch: dict[str, Tensor]) -> Tensor:
    return forward(model, ready(model, batch)).logits.argmax(-1).to(torch.int32)


def option_numbers(model: Any, encoded: Encoded, tokens: int | None = None) -> np.ndarray:
    """Three options of each row: the most likely one, that per character, and that per byte.

    Blanks before an option, which separate it from the context, do not count.
    """
    sums = option_likelihoods(model, encoded, tokens)
    numbers, begin = [], 0
    for row in encoded.data.rows:
        options = [option.lstrip() for option in row.texts[1:]]
        own = sums[begin : begin + len(options)]
        begin += len(options)
        sizes = [1] * len(options), [*map(len, options)], [len(o.encode()) for o in options]
        numbers += [int(np.argmax(own / np.array(size))) for size in sizes]
    return np.array(numbers, np.int64)


def option_likelihoods(model: Any, encoded: Encoded, tokens: int | None = None) -> np.ndarray:
    """The log-likelihood of every option of every row, given its context."""
    sums = np.zeros(len(encoded))
    for numbers, output in _run(model, encoded, tokens or _few_tokens(model), _label_likelihoods):
        sums[numbers] = output.cpu().numpy()
    return sums


def _label_likelihoods(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """The summed log-likelihood of the labels of each window."""
    labels = batch["labels"]
    shifts = predicts_next(model, labels)
    labels = labels[:, 1:] if shifts else labels
    inputs: dict[str, Any] = ready(model, batch)
    labelled = labels != IGNORED
    if shifts and "logits_to_keep" in inspect.signature(type(model).forward).parameters:
        # a vocabulary is large: no logits of the positions before the first label
        unused = int(labelled.any(0).int().argmax())
        inputs["logits_to_keep"] = labels.shape[1] + 1 - unused
        labels, labelled = labels[:, unused:], labelled[:, unused:]
    logits = precise(forward(model, inputs).logits[:, : labels.shape[1]][labelled])
    losses = logits.new_zeros(labels.shape)
    losses[labelled] = F.cross_entropy(logits, labels[labelled], reduction="none")
    return -losses.sum(1)


def likelihoods(model: Any, encoded: Encoded, tokens: int | None = None) -> np.ndarray:
    """The summed log-likelihood of the labels of each batch."""
    return -np.array([float(loss) for _, loss in _run(model, encoded, tokens, loss_sum)])


def window_counts(model: Any, encoded: Encoded, tokens: int | None) -> np.ndarray:
    """The WINDOW_COUNTS of each window of a text, one row a window."""
    arrays = encoded.arrays
    counts = np.zeros((len(encoded), len(WINDOW_COUNTS)))
    counts[:, WINDOW_COUNTS.index("tokens")] = np.asarray(arrays["lengths"]) - 1
    for name, array in zip(("words", "bytes"), WINDOW_ARRAYS, strict=True):
        counts[:, WINDOW_COUNTS.index(name)] = arrays[array]
    places = np.array([WINDOW_COUNTS.index(name) for name in ("loss", "right")])
    for numbers, output in _run(model, encoded, tokens or _few_tokens(model), _loss_and_right):
        counts[np.ix_(numbers, places)] = output.cpu().numpy()
    return counts


def _few_tokens(model: Any) -> int:
    """The positions of a batch whose logits fit into memory."""
    vocabulary = max(vocabulary_sizes(model), default=1)
    device = device_of(model).type
    logits = LOGITS.get(device, LOGITS["cpu"])
    return max(1, min(default_tokens(model), logits // vocabulary))


def _loss_and_right(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """The summed loss of each window, and how many of its tokens have the highest logit."""
    every = forward(model, ready(model, batch)).logits[:, :-1]
    rows = []
    for logits, labels in zip(every, batch["labels"][:, 1:], strict=True):
        logits = precise(logits)  # one window at a time, to save memory
        losses = F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
        rows.append(torch.stack([losses.double().sum(), (logits.argmax(-1) == labels).sum()]))
    return torch.stack(rows)


def answers(model: Any, encoded: Encoded, tokens: int | None = None) -> tuple[str, ...]:
    """The answer to each question: the stretch of its context with the highest sum of two logits.

    These are that of its first token as a start and of its last as an end, in one of the windows.
    """
    best, texts = np.full(len(encoded.data), -np.inf), [""] * len(encoded.data)
    begins, ends = (np.asarray(encoded.arrays[name]) for name in ("begins", "ends"))
    for numbers, output in _run(model, encoded, tokens, _span_logits):
        for n, logits in zip(numbers, output.cpu().numpy(), strict=True):
            row, window = int(encoded.arrays["rows"][n]), slice(*encoded.starts[n : n + 2])
            inside = np.flatnonzero(begins[window] >= 0)  # the tokens of the context
            if not len(inside):
                continue
            score, start, end = best_span(*logits[:, inside])
            if score > best[row]:
                best[row] = score
                first, last = begins[window][inside[start]], ends[window][inside[end]]
                texts[row] = encoded.data.rows[row].texts[1][first:last].strip()
    return tuple(texts)


def _span_logits(model: Any, batch: dict[str, Tensor]) -> Tensor:
    return precise(class_logits(forward(model, ready(model, batch)), batch))


def best_span(starts: np.ndarray, ends: np.ndarray) -> tuple[float, int, int]:
    """The highest sum of a start and an end at most LONGEST_ANSWER tokens later, and both places.

    Of equal sums the first.
    """
    further = np.concatenate([ends, np.full(LONGEST_ANSWER - 1, -np.inf)])
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(further, LONGEST_ANSWER)
    start, length = divmod(int(sums.argmax()), LONGEST_ANSWER)
    return float(sums[start, length]), start, start + length


def translations(
    model: Any, encoded: Encoded, tokenizer: Any, tokens: int | None, beams: int
) -> tuple[str, ...]:
    """The translation of each row, greedily or by beam search."""

    def generate(model: Any, batch: dict[str, Tensor]) -> Tensor:
        inputs, mask = batch["input_ids"], batch["attention_mask"]
        longest = inputs.shape[1] + FURTHER
        output: Tensor = model.generate(
            input_ids=inputs,
            attention_mask=mask,
            num_beams=beams,
            do_sample=False,
            use_cache=True,
            max_new_tokens=longest if room is None else min(longest, room),
            logits_processor=[_Limits(model, mask.sum(1) + FURTHER)],
            **({"length_penalty": PENALTY, "early_stopping": False} if beams > 1 else {}),
        )
        return output

    positions = token_limit(model, decoder=True)
    room = None if positions is None else positions - 1
    budget = (tokens or default_tokens(model)) // beams
    texts = [""] * len(encoded.data)
    for numbers, output in _run(model, encoded, max(1, budget), generate):
        decoded = tokenizer.batch_decode(output.cpu(), skip_special_tokens=True)
        for n, text in zip(numbers, decoded, strict=True):
            texts[int(encoded.arrays["rows"][n])] = text
    return tuple(texts)


class _Limits:
    """Ends each sentence at its own limit, so that it does not depend on the rest of the batch."""

    def __init__(self, model: Any, limits: Tensor):
        end = model.generation_config.eos_token_id
        end = model.config.eos_token_id if end is None else end
        self.end = end[0] if isinstance(end, list) else end
        self.limits = limits

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self.end is None:
            return scores
        limits = self.limits.repeat_interleave(len(scores) // len(self.limits))
        ended = torch.full_like(scores, -torch.inf)
        ended[:, self.end] = 0.0
        return torch.where((input_ids.shape[1] >= limits)[:, None], ended, scores)


def pair_numbers(model: Any, encoded: Encoded, tokens: int | None, show: Progress) -> np.ndarray:
    """The number of each pair: the cosine of its embeddings, or what a regression model says."""
    if embedder_of(model) is None:
        numbers = np.zeros(len(encoded.data))
        for windows, output in _run(model, encoded, tokens, _first_logit):
            numbers[encoded.arrays["rows"][windows]] = output.cpu().numpy()
        return numbers
    units = unit_embeddings(model, encoded, tokens, show)
    place = {key: number for number, key in enumerate(encoded.data.single_texts)}
    first, second = ([place["", row.texts[i]] for row in encoded.data.rows] for i in (0, 1))
    return np.asarray((units[first] * units[second]).sum(-1, dtype=torch.float64).numpy())


def _first_logit(model: Any, batch: dict[str, Tensor]) -> Tensor:
    return precise(forward(model, ready(model, batch)).logits)[:, 0]


def unit_embeddings(model: Any, encoded: Encoded, tokens: int | None, show: Progress) -> Tensor:
    """The embedding of each text of `encode(..., singles=...)`, scaled to length 1, on the CPU."""
    embedder = embedder_of(model)
    assert embedder is not None  # checked by `labels_for`

    def work(model: Any, batch: dict[str, Tensor]) -> Tensor:
        outputs = forward(model, ready(model, batch))
        return F.normalize(precise(embedder(outputs, batch)), dim=-1).cpu()

    done = _run(model, encoded, tokens, work, show)
    units = torch.zeros(len(encoded), done[0][1].shape[-1])
    for windows, output in done:
        units[torch.from_numpy(windows)] = output
    return units


def found_documents(
    model: Any, encoded: Encoded, tokens: int | None, show: Progress
) -> list[list[str]]:
    """The ids of the FOUND documents nearest to each query, by cosine, the best first.

    All documents are compared. As in trec_eval, the larger id comes first where two are as near,
    and as in BEIR a document with the id of the query is left out.
    """
    data = encoded.data
    units = unit_embeddings(model, encoded, tokens, show)
    place = {key: number for number, key in enumerate(data.single_texts)}
    names = sorted(data.documents, key=str.encode, reverse=True)
    numbers = {name: number for number, name in enumerate(names)}
    documents = units[[place[DOCUMENT, data.documents[name]] for name in names]]
    queries = units[[place[QUERY, row.texts[0]] for row in data.rows]]
    step = max(1, SIMILARITIES // len(names))
    rankings = []
    for begin in range(0, len(queries), step):
        near = queries[begin : begin + step] @ documents.T
        for row, own in zip(data.rows[begin : begin + step], near, strict=True):
            if row.labels[0] in numbers:
                own[numbers[row.labels[0]]] = -torch.inf
            rankings.append([names[number] for number in _nearest(own)])
    return rankings


def _nearest(similarities: Tensor) -> list[int]:
    """The numbers of the FOUND highest; of equal ones the first."""
    limit = similarities.topk(min(FOUND, len(similarities))).values[-1]
    candidates = (similarities >= limit).nonzero()[:, 0]
    order = similarities[candidates].argsort(descending=True, stable=True)
    best: list[int] = candidates[order][:FOUND].tolist()
    return [number for number in best if similarities[number] > -torch.inf]


def default_tokens(model: Any) -> int:
    return TOKENS.get(device_of(model).type, TOKENS["cpu"])


def is_out_of_memory(problem: RuntimeError) -> bool:
    return isinstance(problem, torch.OutOfMemoryError) or "can't allocate memory" in str(problem)


def _run(
    model: Any, encoded: Encoded, tokens: int | None, work: Work, show: Progress = silent
) -> list[tuple[np.ndarray, Tensor]]:
    """Do the work on each batch. If one does not fit into memory, halve it and later ones."""
    device = device_of(model)
    feed = Feed(encoded, device)
    budget = tokens or default_tokens(model)
    pending = list(reversed(batches(encoded, tokens=budget, every_option=True).numbers))
    done = []
    largest, finished = len(encoded), 0  # largest: windows that fit into memory
    with torch.no_grad(), evaluating(model), computing(model):
        while pending:
            numbers = pending.pop()
            if len(numbers) > largest:
                half = len(numbers) // 2
                pending += [numbers[half:], numbers[:half]]
                continue
            try:
                shape = feed.shape(numbers, few=device.type == "cuda")
                batch = feed(torch.from_numpy(numbers).to(device), shape)
                done.append((numbers, work(model, batch)))
                finished += len(numbers)
                show(finished, len(encoded), "texts")
            except RuntimeError as problem:
                if not is_out_of_memory(problem):
                    raise
                if len(numbers) == 1:
                    message = "out of memory with a single window."
                    raise DataError(message, "encode with a smaller max_length") from problem
                largest = max(1, len(numbers) // 2)
                pending.append(numbers)
    return done
