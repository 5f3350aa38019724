"""The sentences at the top of the page say what the tables show: all numbers are computed again."""

import re
from statistics import fmean

from by_hand import HEADS, study

from deadhead.report.page.content import content
from deadhead.studies.store.records import Record

RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, es, ar], splits: test}
axes: {remove: [none, {random: [50, 90]}, {lowest: 4}, {highest: 4}], seed: [0, 1, 2]}
tables: [{title: Scores, rows: remove, columns: language, mean_over: seed}]
"""
GAINS = {
    "none": (0, 0, 0),
    "random 50": (0, -6, 6),
    "random 90": (-1, -20, -10),
    "lowest 4": (0, 1, -1),
    "highest 4": (0, -2, -1),
}


def outcome(trial, labels):
    remove = trial.get("remove")
    name = " ".join(map(str, next(iter(remove.items())))) if remove else "none"
    noise = 0.004 * ((7 * trial.get("seed") + len(name)) % 5)
    scores = {
        f"{language}/test/micro_f1": 0.8 + gain / 100 + noise
        for language, gain in zip(("en", "es", "ar"), GAINS[name], strict=True)
    }
    removed = {"random 50": 4, "random 90": 6}.get(name, 4) if remove else 0
    return Record(
        trial=trial,
        state="done",
        removed=HEADS[:removed],
        metrics=scores,
        cost={"parameters": 100, "parameters after": 100 - removed},
    )


def test_findings_are_the_numbers_of_the_table(tmp_path):
    data = content(study(tmp_path, RECIPE, outcome))
    (table,) = data["tables"]
    rows = {
        row[0]: [cell["ours"] for cell in cells]
        for row, cells in zip(table["rows"], table["cells"], strict=True)
    }
    first, second, third = data["findings"]
    whole, half, most = (fmean(rows[name]) for name in ("none", "random 50 %", "random 90 %"))
    assert (
        f"Without 50 % of the heads at random, the mean micro F1 is {half:.1f}, against "
        f"{whole:.1f} unpruned (3 repetitions" in first
    )
    changes = [ours - full for ours, full in zip(rows["random 50 %"], rows["none"], strict=True)]
    assert (
        f"languages change by {changes[1]:+.1f} (es) to {changes[2]:+.1f} (ar)" in first
    )  # though the mean stays
    assert f"Without 90 % of the heads at random, it is {most:.1f}" in first
    significant = [cell for row in table["cells"] for cell in row if cell["mark"]]
    tested = [cell for row in table["cells"] for cell in row if cell["p"] is not None]
    assert significant
    assert second.startswith(
        f'{len(significant)} of the {len(tested)} tested cells of the table "Scores" differ from '
        "the unpruned model"
    )
    apart = fmean(rows["lowest 4 heads"]) - fmean(rows["highest 4 heads"])
    assert (
        f"The mean is {apart:.1f} points higher without the 4 lowest-ranked heads than without "
        "the 4 highest-ranked heads" in third
    )
    assert re.search(r"t-test p = 0\.\d+: (no difference is shown|a difference)", third)


def test_rankings_of_several_methods_are_not_mixed(tmp_path):
    recipe = """\
steps: [finetune, rank]
fixed: {model: a/model, task: pos}
axes: {source: [en, de], rank.method: [gradient, lrp]}
"""

    def ranked(trial, labels):
        method, language = trial.get("rank")["method"], trial.get("source")
        turned = language == "de" and method == "lrp"
        scores = {head: float(-at if turned else at) for at, head in enumerate(HEADS)}
        return Record(
            trial=trial,
            state="done",
            details={"ranking": {"method": method, "languages": [language], "scores": scores}},
        )

    data = content(study(tmp_path, recipe, ranked))["findings"]
    assert data == [
        "Rankings of 2 languages agree with Spearman's rho from -1.00 (lrp) to 1.00 (gradient), "
        "the means over pairs for each ranking method."
    ]
