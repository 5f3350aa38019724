"""The numbers of a study as plain data: scores, searches, rankings and measures.

`Study` reads them from a study folder, `claims.from_papers` from the tables that papers print. Both
use these classes, so one function can judge a study and a paper. Scores are in points (0 to 100;
BLEU as it is), shares of heads in percent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TRANSLATE = "translate"  # the kind of task
LAYERS = re.compile(r"(top|bottom|middle|odd|even)(?: (\d+))?")


@dataclass(frozen=True, kw_only=True)
class OnTask:
    """A number that belongs to one model and one task."""

    model: str
    task: str  # without the corpus: `slots` for `slots-atis`
    kind: str = ""  # classify, tag or translate; empty where the task is unknown

    @property
    def translated(self) -> bool:
        return self.kind == TRANSLATE


@dataclass(frozen=True, kw_only=True)
class Score(OnTask):
    """One score of one trained model in one language."""

    source: str  # en, or en+de where there are several
    target: str  # the language scored
    value: float  # in points
    train: str = ""  # the languages of the training that is scored
    setting: str = ""  # cross-lingual, multi-lingual or mono-lingual
    remove: str = "none"  # "random 50", "layers top 3"
    amount: Any = 0  # in the strategy's own unit
    share: float | None = None  # percent of the heads removed; None where it is not known
    draw: int | None = None  # None where no heads are drawn at random
    seed: int | None = None
    arm: str = ""  # of a search: full, lowest, seeds, random, highest
    k: int | None = None  # heads removed by a search
    parts: int | None = None  # tenths of the target's training set, where not all of it
    split: str = "test"  # or "test@1" for the weights after the first epoch
    metric: str = ""
    rank: str = ""  # the ranking used: "gradient", "gradient merge=md"
    trial: str = ""  # the id of its record; empty for a published number
    dataset: str = ""  # the task as the recipe names it: slots-atis
    one_label: bool = False  # the model predicts one label for everything: training failed

    @property
    def strategy(self) -> str:
        return "" if self.remove == "none" else self.remove.split(" ", 1)[0]

    @property
    def epoch(self) -> int | None:
        """1 for the weights after the first epoch, None for those of the trial."""
        number = self.split.partition("@")[2]
        return int(number) if number else None

    @property
    def shape(self) -> tuple[str, int] | None:
        """A set of layers: ("top", 3), ("odd", 0), and ("ends", 6) for `top 3 + bottom 3`."""
        words = self.remove.removeprefix("layers ").split("+")
        parts = [LAYERS.fullmatch(word.strip()) for word in words]
        if self.strategy != "layers" or not all(parts):
            return None
        sizes = {part[1]: int(part[2] or 0) for part in parts if part}
        if len(parts) == 1:
            return next(iter(sizes.items()))
        if set(sizes) == {"top", "bottom"} and sizes["top"] == sizes["bottom"]:
            return "ends", 2 * sizes["top"]
        return None


@dataclass(frozen=True)
class Pick:
    """The trial that a rule chose among those of an arm."""

    k: float | None  # heads removed; a mean over seeds may be fractional; None where unknown
    score: float
    gain: float  # over the unpruned model; above 0 is better, whatever the metric


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of one search, scored in one language."""

    arm: str  # lowest, highest, random, seeds
    picks: Mapping[str, Pick]  # by the rule that chose: test, dev, source dev, stop
    full: float = float("nan")  # score of the unpruned model
    scores: Mapping[int, float] = field(default_factory=dict)  # test scores by k
    tried: tuple[int, ...] = ()  # the k of the trials that `picks` chose from
    trials: Mapping[int, str] = field(default_factory=dict)  # ids by k; 0 is the unpruned model
    missing: int = 0  # trials of this arm that are not done
    metric: str = ""
    repeats: tuple[float, ...] = ()  # the gain of each seed, where this is the mean of several

    @property
    def gain(self) -> float:
        """Gain of the best trial by test score, which is how the papers choose."""
        return self.picks["test"].gain

    @property
    def k(self) -> float | None:
        """Heads removed in that trial."""
        return self.picks["test"].k

    @property
    def budget(self) -> int:
        return len(self.tried)


@dataclass(frozen=True, kw_only=True)
class Search(OnTask):
    """One lowest-k search and its controls, scored in one target language."""

    source: str
    target: str
    setting: str
    unpruned: float
    arms: Mapping[str, Arm]  # lowest first, then the controls: seeds, random, highest
    train: str = ""  # the languages of the training that is scored
    rank: str = ""  # the ranking used; empty where it is not known
    parts: int | None = None  # tenths of the target's training set
    trials: tuple[str, ...] = ()  # ids, the unpruned model first
    group: tuple[tuple[str, Any], ...] = ()  # the labels that identify the search in its study
    dataset: str = ""  # the task as the recipe names it

    @property
    def lowest(self) -> Arm | None:
        return self.arms.get("lowest")

    def gain(self, arm: str = "lowest") -> float:
        return self.arms[arm].gain

    @property
    def is_pair(self) -> bool:
        """Whether it is from one language, or several together, to another language.

        A source scored in itself is no pair, nor is a training on more languages than the ranking
        has: of those, only the best ranking counts (`Merged`).
        """
        sources, learnt = set(self.source.split("+")), set(self.train.split("+")) - {""}
        return self.target not in sources and learnt <= {*sources, self.target}

    @property
    def pair(self) -> tuple[Any, ...]:
        """What two searches share that differ only in their seed."""
        names = "model", "task", "source", "target", "setting", "rank", "parts", "train"
        return tuple(getattr(self, name) for name in names)


@dataclass(frozen=True, kw_only=True)
class Merged(OnTask):
    """Several source languages, one target: the best score of each way to merge rankings."""

    train: str
    target: str
    unpruned: float
    scores: Mapping[str, float]  # by way: MD, SD, EC
    trials: tuple[str, ...] = ()
    budget: int = 12  # trials of each search; EC has one search for each source
    up: int = 1  # the sign of the metric

    @property
    def gains(self) -> dict[str, float]:
        """What each way gains over the unpruned model."""
        return {way: self.up * (score - self.unpruned) for way, score in self.scores.items()}


@dataclass(frozen=True, kw_only=True)
class RankedHeads(OnTask):
    """The ranking of all heads that one record keeps."""

    trial: str
    languages: tuple[str, ...]
    method: str  # "gradient", "lrp rule=alpha-beta"
    scores: Mapping[str, float]  # by head
    merge: str = ""

    @property
    def language(self) -> str:
        return "+".join(self.languages)

    @property
    def ranker(self) -> str:
        """The method without its rule."""
        return self.method.partition(" ")[0]


@dataclass(frozen=True, kw_only=True)
class Measurement(OnTask):
    """What one measure gave for one model at one stage."""

    trial: str
    remove: str
    name: str  # entropy, weights, embeddings, patterns
    stage: str  # before, first, after
    # by head; by score and head for patterns; embeddings have values of their own
    values: Mapping[str, Any]
    removed: tuple[str, ...] = ()
