"""A DuoAttention pattern: which key/value heads of a decoder need their whole cache.

The format is that of https://github.com/mit-han-lab/duo-attention, which kvpress reads too: a
folder with `full_attention_heads.tsv`, layers x key/value heads between 0 (streams) and 1 (keeps
all), and `config.json` with the numbers of first and recent tokens that a streaming head keeps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deadhead.errors import HeadError, UnsupportedModel
from deadhead.files import put_folder
from deadhead.files.writing import writing
from deadhead.layout import Head
from deadhead.ranking import Ranking


def export_duo_attention(model: Any, ranking: Ranking, folder: str | Path) -> Path:
    """Write how much each key/value head of a decoder needs the distance, for kvpress.

    Args:
        ranking: of streaming heads: rank(model, batches, "ablation", streaming=Streaming(...)).
            A key/value head gets the highest score of the heads that read it; the scores are
            scaled to 0 for the lowest and 1 for the highest.
        folder: a new folder.
    """
    if ranking.options.get("fill") != "streaming":
        raise HeadError(
            f"expected a ranking of streaming heads, got one by {ranking.method} with "
            f"fill={ranking.options.get('fill')!r}.",
            'rank(model, batches, "ablation", streaming=Streaming(sink=4, recent=256))',
        )
    rows = _rows(model, ranking)
    numbers = [number for row in rows for number in row]
    low, high = min(numbers), max(numbers)
    if low == high:
        raise HeadError(
            "all heads have the same score, so none needs the distance more than another.",
            "rank on texts that are longer than sink + recent tokens",
        )
    scaled = [[(number - low) / (high - low) for number in row] for row in rows]
    config = {"sink_size": ranking.options["sink"], "recent_size": ranking.options["recent"]}
    target = Path(folder)
    if target.exists():
        raise HeadError(f"{target} exists already.", "name a new folder")

    def fill(draft: Path) -> None:
        table = "".join("\t".join(map(str, row)) + "\n" for row in scaled)
        (draft / "full_attention_heads.tsv").write_text(table, encoding="utf-8")
        (draft / "config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")

    with writing(target):
        put_folder(target, fill)
    return target


def _rows(model: Any, ranking: Ranking) -> list[list[float]]:
    """The highest score of the heads of each key/value head, for each layer."""
    from deadhead.heads.discover import discover, find_sites

    sites, scores = find_sites(model), ranking.scores_for(discover(model))
    blocks = {site.block for site in sites}
    if blocks != {"decoder"} or [site.layer for site in sites] != list(range(len(sites))):
        raise UnsupportedModel(
            "a DuoAttention pattern expects a decoder with attention in every layer, got heads in "
            f"{', '.join(sorted(blocks))}.",
            "export the pattern of a language model",
        )
    groups = [
        [[Head(*site.layer_key, index) for index in group] for group in site.by_key(site.kept)]
        for site in sites
    ]
    sizes = [len(of_layer) for of_layer in groups]
    if len(set(sizes)) > 1 or sizes[0] < 2:
        raise UnsupportedModel(
            "a DuoAttention pattern is a table of layers x key/value heads, two or more in each, "
            f"got {', '.join(map(str, sizes))} by layer.",
            "export the pattern of a model with the same number in all layers",
        )
    unscored = [
        head for of_layer in groups for group in of_layer for head in group if head not in scores
    ]
    if unscored:
        raise HeadError(f"head {unscored[0]} has no score.", "rank without closed heads")
    return [[max(scores[head] for head in group) for group in of_layer] for of_layer in groups]
