"""The page of `deadhead demo`: one HTML file without scripts, from the demo's numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template
from typing import TYPE_CHECKING

from deadhead.tasks.metrics import points

from .html import asset

if TYPE_CHECKING:
    from deadhead.saved.demo import Demo

ENDS = 5  # heads to name from each end of the ranking
LABELS = {
    "full": "the full model",
    "chosen": "half removed, chosen and repaired",
    "random": "half removed at random, repaired the same way",
}
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Half of a tagger removed · deadhead</title>
<style>$style</style>
</head>
<body>
<main>
<p class="eyebrow">deadhead demo</p>
<h1>Half of the heads and neurons removed, without training</h1>
<p class="about">$finding</p>
<div class="card"><h3>Score and speed, before and after</h3>$scores
<p class="note">$note</p></div>
<div class="card"><h3>How much each head matters</h3>$ranking
<p class="note">$ends</p></div>
<div class="card"><h3>Which heads remain</h3>$remaining
<p class="note">The removal weighs sets of heads. The scores above rank single heads, so the heads
removed need not be the lowest of them.</p></div>
<div class="card"><h3>Try next</h3><pre>$command</pre></div>
</main>
</body>
</html>
""")


def demo_page(demo: Demo, command: str) -> str:
    """Return the page. command: what to try next."""
    ranking = demo.ranking
    low, high = ranking.lowest(ENDS), ranking.highest(ENDS)
    ends = f"Highest: {_names(high)}. Lowest: {_names(low)}. By gradient: the mean change of the "
    ends += f"loss when a head is scaled slightly, on {demo.calibrated:,} training sentences."
    layout = ranking.layout.without(demo.removed)
    return PAGE.substitute(
        style=asset("page.css"),
        finding=escape(finding(demo)),
        scores=_table(demo),
        note=escape(note(demo)),
        ranking=ranking._repr_html_(),
        ends=escape(ends),
        remaining=layout._repr_html_(),
        command=escape(command),
    )


def finding(demo: Demo) -> str:
    """Return what the demo measured, in two sentences."""
    mean = {name: f"{points(demo.metric, demo.mean(name)):.1f}" for name in demo.scores}
    return (
        f"With half of its heads and neurons, the tagger scores {mean['chosen']} points instead of "
        f"{mean['full']} (mean of {len(demo.languages)} languages) and runs "
        f"{demo.speed('chosen'):.2f} times as fast. With a random half removed it scores "
        f"{mean['random']}."
    )


def rows(demo: Demo) -> Iterable[tuple[str, list[str]]]:
    """Yield the label and the cells of each row of the table, as on the page and in a terminal."""
    for name, label in LABELS.items():
        cells = [*demo.scores[name].values(), demo.mean(name)]
        texts = [f"{points(demo.metric, value):.1f}" for value in cells]
        yield label, [*texts, f"{demo.milliseconds[name]:.1f}", f"{demo.speed(name):.2f}"]
        if name in demo.before_repair:
            cut = [*demo.before_repair[name].values()]
            cut.append(sum(cut) / len(cut))
            yield "its score before the repair", [*(f"{points(demo.metric, v):.1f}" for v in cut)]


def columns(demo: Demo) -> list[str]:
    return [*demo.languages, "mean", "ms", "times as fast"]


def note(demo: Demo) -> str:
    """Return what the numbers are, and what they do not show."""
    full, small = demo.sizes["full"], demo.sizes["chosen"]
    batch, length = demo.inputs
    removed = ", ".join(f"{full[kind]:,} to {small[kind]:,} {kind}" for kind in full if full[kind])
    return (
        f"Micro F1 of parts of speech in points, on {demo.tested} test sentences of each language. "
        f"The model is the bundled encoder (5 layers, made-up sentences), fine-tuned a moment ago "
        f"on {demo.trained:,} English sentences; it saw no labels of the other languages. The "
        f"removal read {demo.calibrated:,} of these sentences and went from {removed}. One seed, "
        f"and one random half: a demonstration, not a result. Times are of one run of "
        f"{batch} x {length} tokens on this machine, with the models in turns."
    ).replace("macs", "multiply-accumulates")


def _names(heads: Iterable[object]) -> str:
    return ", ".join(map(str, heads))


def _table(demo: Demo) -> str:
    names = columns(demo)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(f"<td>{cell}</td>" for cell in [*cells, *[""] * (len(names) - len(cells))])
        + "</tr>"
        for label, cells in rows(demo)
    )
    top = f"<thead><tr><th></th>{head}</tr></thead>"
    return f'<div class="scroll"><table class="grid">{top}<tbody>{body}</tbody></table></div>'
