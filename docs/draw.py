"""Draws the pictures of how-it-works.md: boxes, arrows and words, readable on light and dark pages.

python docs/draw.py
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).parent / "images"
STYLE = """<style>
.page { fill: #fdfcfa } .box { fill: #ffffff; stroke: #6b6675 } .on { fill: #e7defa; stroke: #5a3d99 } .off { fill: #f3f1ee; stroke: #b5b0ab; stroke-dasharray: 4 3 }
.gate { fill: #0f7b6c; stroke: none } .shut { fill: #fdfcfa; stroke: #b3541e; stroke-width: 2 }
text { font: 14px system-ui, sans-serif; fill: #22202a; text-anchor: middle } .small { font-size: 12px; fill: #55505e } .left { text-anchor: start }
.head { font-weight: 600 } .line { stroke: #55505e; stroke-width: 1.5; fill: none; marker-end: url(#tip) } .tip { fill: #55505e }
@media (prefers-color-scheme: dark) {
.page { fill: #1c1b20 } .box { fill: #26252c; stroke: #8d8898 } .on { fill: #3d2f5e; stroke: #b79df0 } .off { fill: #232228; stroke: #5d5966 }
.gate { fill: #4fc3b0 } .shut { fill: #1c1b20; stroke: #f0a070 } text { fill: #ece9f2 } .small { fill: #b5b0bf } .line { stroke: #b5b0bf } .tip { fill: #b5b0bf }
}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>"""


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def box(
    x: float, y: float, w: float, h: float, words: str = "", kind: str = "box", under: str = ""
) -> str:
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6"/>'
    middle = y + h / 2 + (-3 if under else 5)
    return (
        shape
        + (text(x + w / 2, middle, words) if words else "")
        + (text(x + w / 2, middle + 17, under, "small") if under else "")
    )


def arrow(*points: tuple[float, float]) -> str:
    return '<path class="line" d="M' + " L".join(f"{x:g} {y:g}" for x, y in points) + '"/>'


def gate(x: float, y: float, open_: bool = True) -> str:
    return f'<circle class="{"gate" if open_ else "shut"}" cx="{x:g}" cy="{y:g}" r="7"/>'


def picture(name: str, width: int, height: int, title: str, parts: Sequence[str]) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    page = f'<rect class="page" width="{width}" height="{height}" rx="10"/>'
    body = "\n".join([head, f"<title>{escape(title)}</title>", STYLE, page, *parts, "</svg>"])
    (HERE / f"{name}.svg").write_text(body + "\n", encoding="utf-8")


def seam() -> None:
    """One attention layer, from its input to its output, with the gates where the heads lie side by side."""
    parts = [
        text(380, 30, "One attention layer of four heads", "head"),
        box(20, 170, 90, 50, "input"),
    ]
    parts.append('<path class="line" style="marker-end: none" d="M294 85 h-8 v220 h8"/>')
    for name, y in (("queries  Wq", 90), ("keys  Wk", 170), ("values  Wv", 250)):
        parts += [
            box(150, y, 110, 50, name),
            arrow((110, 195), (130, 195), (130, y + 25), (150, y + 25)),
            arrow((260, y + 25), (284, y + 25)),
        ]
    parts += [text(425, 72, "heads, side by side", "small"), text(533, 72, "gates", "small")]
    for i in range(4):
        y, is_open = 85 + 58 * i, i != 2
        parts += [
            box(300, y, 210, 46, f"head {i}", "on" if is_open else "off", "softmax(q k) v"),
            gate(533, y + 23, is_open),
        ]
        parts += [arrow((510, y + 23), (525, y + 23))] + (
            [arrow((541, y + 23), (575, y + 23))] if is_open else []
        )
    parts += [
        box(575, 85, 70, 220, "Wo"),
        box(680, 170, 70, 50, "+ bias"),
        arrow((645, 195), (680, 195)),
    ]
    parts += [
        text(533, 345, "output = sum over heads of  gate x head x Wo  + bias", "small"),
        text(533, 363, "head 2 is closed: it adds nothing", "small"),
    ]
    picture(
        "seam",
        770,
        380,
        "The seam: a gate for each head, between the heads and the output projection",
        parts,
    )


def gates() -> None:
    """The same layer with a gate open, closed, and with the head cut out."""
    parts = []
    titles = (
        ("open", "nothing changes"),
        ("closed", "head 2 adds nothing"),
        ("cut", "head 2 is gone: smaller matrices"),
    )
    for column, (name, says) in enumerate(titles):
        x = 30 + 240 * column
        parts += [text(x + 95, 32, name, "head"), text(x + 95, 52, says, "small")]
        for row, (matrix, y) in enumerate((("Wq Wk Wv", 70), ("gates", 150), ("Wo", 190))):
            heads = [0, 1, 3] if name == "cut" else [0, 1, 2, 3]
            for place, head in enumerate(heads):
                at, shut = x + 48 * place, name == "closed" and head == 2
                if matrix == "gates":
                    parts.append(gate(at + 22, y + 10, not shut))
                else:
                    parts.append(
                        box(at, y, 44, 60, str(head), "off" if shut and row == 2 else "on")
                    )
            parts.append(
                text(x + 48 * len(heads) / 2, y + 74, matrix, "small") if matrix != "gates" else ""
            )
    parts.append(
        text(
            375,
            300,
            "closed and cut compute the same; `deadhead heads MODEL --check` proves it on your weights",
        )
    )
    picture("gates", 750, 325, "A gate open, a gate closed, and the head cut out", parts)


def trial() -> None:
    """From a recipe to a page, with the steps of one trial."""
    parts = [box(20, 40, 120, 56, "recipe", under="one YAML file"), arrow((140, 68), (185, 68))]
    parts += [
        box(185, 40, 150, 56, "trials", under="id = hash of content"),
        arrow((335, 68), (380, 68)),
    ]
    parts += [
        box(380, 40, 150, 56, "executor", under="local, serial, ray"),
        arrow((530, 68), (575, 68)),
    ]
    parts += [
        box(575, 40, 175, 56, "records", under="one JSON for each trial"),
        arrow((700, 96), (700, 250)),
    ]
    parts += [
        text(20, 150, "one trial: {lowest: 12}, seed 0", "head left"),
        arrow((455, 96), (455, 130)),
        text(465, 122, "runs each of them", "small left"),
    ]
    steps = ("finetune", "rank", "restart", "prune", "finetune", "evaluate")
    says = (
        "on the source",
        "every head",
        "first weights",
        "12 lowest",
        "what is left",
        "all targets",
    )
    for i, (step, under) in enumerate(zip(steps, says, strict=True)):
        x = 20 + 104 * i
        parts.append(box(x, 170, 92, 56, step, "on" if i > 2 else "box", under))
        if i:
            parts.append(arrow((x - 12, 198), (x, 198)))
    parts += [
        box(20, 262, 196, 44, "done once, shared", "off"),
        arrow((66, 226), (66, 262)),
        arrow((170, 226), (170, 262)),
    ]
    parts += [
        text(228, 282, "by all trials with the same model,", "small left"),
        text(228, 298, "data, settings and seed", "small left"),
    ]
    parts += [
        arrow((632, 198), (662, 198), (662, 96)),
        box(640, 250, 110, 56, "report", under="one page"),
    ]
    picture("trial", 770, 325, "From a recipe to a page, and one trial step by step", parts)


if __name__ == "__main__":
    for draw in (seam, gates, trial):
        draw()
