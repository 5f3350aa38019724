"""Helpers to draw one figure and to check it."""

from dataclasses import replace

import altair
import vl_convert
from by_hand import DRAWN, HEADS, done, drawn, study

from deadhead.report.export import VEGALITE
from deadhead.report.figures.build import figures


def only(folder, spec, recipe=DRAWN, outcome=drawn):
    """The one figure a recipe asks for; drawn too, so that a broken specification shows."""
    (figure,) = figures(study(folder, recipe + f"figures: [{spec}]\n", outcome))
    valid(figure["spec"])
    return dict(figure)


def valid(spec):
    altair.Chart.from_dict(spec)  # by the schema of vega-lite
    drawing = str(vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE))
    assert "<path" in drawing
    assert "undefined" not in drawing
    return drawing


def values(figure):
    return list(figure["spec"]["data"]["values"])


LAYERS = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: xnli, source: en, targets: [en, de, hi, tr], splits: dev}
axes: {remove: [none, {layers: [top 1, top 2, bottom 1, bottom 2, top 1 + bottom 1]}]}
"""


def layers(trial, labels):
    remove = trial.get("remove")
    losses = {"top 1": 0.01, "top 2": 0.02, "bottom 1": 0.03, "bottom 2": 0.04}
    loss = losses.get(remove["layers"], 0.05) if remove else 0
    scores = {"en": 0.9, "de": 0.8, "hi": 0.5 + loss, "tr": 0.5}
    return done(trial, {f"{lang}/dev/accuracy": value - loss for lang, value in scores.items()})


def measured(trial, labels):
    """With rankings of two languages, entropies, weights and points."""
    language = "en" if trial.get("task") == "mnli" else "de"
    scores = {head: float(i if language == "en" else -i) for i, head in enumerate(HEADS)}
    points = {"en": [[0.0, 1.0], [0.5, 1.5]], "de": [[3.0, 1.0]]}
    stages = {
        stage: {"entropy": entropy, "embeddings": {"points": points, "silhouette": silhouette}}
        for stage, entropy, silhouette in (
            ("before", dict.fromkeys(HEADS, 2.0), 0.5),
            ("after", {HEADS[0]: 1.0}, 0.25),
        )
    }
    stages["after"]["weights"] = {HEADS[0]: 0.01}
    ranking = {"method": "gradient", "languages": [language], "scores": scores}
    return replace(drawn(trial, labels), details={"ranking": ranking, "measures": stages})
