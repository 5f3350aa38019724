"""Find the text of the data that a model read as given tokens."""

from collections.abc import Sequence
from typing import Any

from deadhead.embedding import embedder_of
from deadhead.tasks import Dataset
from deadhead.tasks.encoding.plain_text import texts_of
from deadhead.training.models import prompted


def original_text(tokens: Sequence[int], model: Any, tokenizer: Any, data: Any) -> str:
    """Return the text as the data has it, without a prompt; a pair has a tab between its texts.

    data: a dataset or a list of texts, as `rank_batches` takes them.
    """
    embedder = embedder_of(model)
    texts = texts_of(data) if isinstance(data, Dataset) else data
    prompts = texts
    if embedder is not None and not isinstance(data, Dataset):
        prompts = [tuple(map(embedder.text, parts)) for parts in data]
    elif embedder is not None and data.task.traits.of_embeddings:
        texts = [(text,) for _, text in data.single_texts]
        prompts = [(text,) for text in prompted(embedder, data)]
    # Cut at this length, longer texts with the same beginning are the same tokens. Either the
    # text was cut too, and so were all of these, or it is the shortest of them.
    cut = {"truncation": True, "max_length": len(tokens)}
    same = [
        "\t".join(text)
        for text, read in zip(texts, prompts, strict=True)
        if tokenizer(*read, **cut)["input_ids"] == list(tokens)
    ]
    return min(same, key=len) if same else str(tokenizer.decode(tokens, skip_special_tokens=True))
