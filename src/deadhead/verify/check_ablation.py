"""Is a user's own ablation of heads correct, and if not, what does it likely do?

Hooks on heads are easily wrong in silence: the model runs and the outputs change. `check_ablation`
compares them with gates on several heads, in a forward pass and in generation with a cache, and
where they differ with common mistakes (`wrong_ablations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.errors import DeadheadError
from deadhead.forward import on_device
from deadhead.heads.discover import discover, find_sites
from deadhead.heads.gates import gated
from deadhead.heads.means import HeadMeans, evaluating
from deadhead.layout import Batch, Head, HeadLayout
from deadhead.numerics import seed

from .applied import Ablation, applied, hooks_of, restore
from .inputs import batch_for, prompt_for
from .proof import TOLERANCE, difference, outputs
from .wrong_ablations import SEAM, WRONG, Install, Problem, first_call_only

STEPS = 4  # tokens that are generated
ROUNDING = 64  # times the precision of a number: what the order of a sum may change


@dataclass(frozen=True, kw_only=True)
class AblationCase:
    """The comparison for one set of heads; differences are the largest in any output."""

    heads: tuple[Head, ...]
    effect: float  # correct ablation against the whole model
    difference: float  # the function against correct ablation
    cached: float | None  # the same in generation with a cache; None without generation
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class AblationCheck:
    """Whether an ablation equals a correct one; `print` it to read what it likely does."""

    model: str
    cases: tuple[AblationCase, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The distinct mistakes, those of the most cases first."""
        every = [problem for case in self.cases for problem in case.problems]
        return tuple(sorted(dict.fromkeys(every), key=lambda problem: -every.count(problem)))

    def __str__(self) -> str:
        sets = f"{len(self.cases)} set{'s' if len(self.cases) > 1 else ''} of heads"
        if self.ok:
            return f"equal: the function removes heads of {self.model} correctly ({sets})."
        lines = [f"NOT equal to correct ablation of heads of {self.model} ({sets}). It likely"]
        for problem in self.problems:
            count = sum(problem in case.problems for case in self.cases)
            lines += [
                f"- {problem.words} ({count} of {len(self.cases)})",
                f"    Hint: {problem.hint}",
            ]
        lines.append("Largest differences in any output (effect: of correct ablation):")
        for case in self.cases:
            cached = "" if case.cached is None else f", with a cache {case.cached:.3g}"
            heads = ", ".join(map(str, case.heads))
            lines.append(
                f"  {heads}: effect {case.effect:.3g}, difference {case.difference:.3g}{cached}"
            )
        return "\n".join(lines)


def check_ablation(
    model: nn.Module,
    function: Ablation,
    heads: Iterable[Head | str] | None = None,
    batch: Batch | None = None,
    *,
    fill: HeadMeans | None = None,
) -> AblationCheck:
    """Compare an ablation of your own with a correct one; say what it likely does where it differs.

    Args:
        function: called with the model and a tuple of heads, returns a context manager inside of
            which these heads are removed. It may also install hooks and return their handles, or
            a function that undoes it.
        heads: to remove one by one and together; by default one of the first
            and one of the last layer of each block.
        batch: inputs of the model; by default random tokens, for most models.
        fill: the means that the function puts in place of the heads; zero by default.

    The model is left as it was; hooks that the function leaves behind are removed. Half precision
    is too coarse to compare, so such a model computes in float32 meanwhile.

    >>> print(check_ablation(model, my_ablation))
    equal: the function removes heads of GPT2LMHeadModel correctly (3 sets of heads).
    """
    # Longer than most functions: half of it describes the arguments.
    if not callable(function):
        raise DeadheadError(
            f"check_ablation expects a function of (model, heads), got {type(function).__name__}.",
            "write def my_ablation(model, heads): ... and pass my_ablation",
        )
    layout = discover(model)
    sets = _sets(layout, heads)
    with evaluating(model), torch.no_grad(), _precise(model):
        runs = _Runs(model, batch)
        mistakes = _Mistakes(runs, layout, zero=fill is None)
        cases = []
        try:
            for chosen in sets:
                with gated(model, closed=chosen, fill=fill or "zero"):
                    right = runs.run()
                cases.append(_case(runs, function, right, chosen, mistakes))
                if any(problem.name == "weights_changed" for problem in cases[-1].problems):
                    break  # nothing can be compared with the former model any more
        finally:
            restore(model, runs.hooks)
    if not any(case.effect > runs.limit(case.effect) for case in cases):
        raise DeadheadError(
            "removing these heads does not change the outputs, so nothing can be compared.",
            "name other heads, or give a batch whose outputs depend on them",
        )
    return AblationCheck(model=type(model).__name__, cases=tuple(cases))


def _sets(layout: HeadLayout, heads: Iterable[Head | str] | None) -> list[tuple[Head, ...]]:
    """The sets of heads to remove: single ones, then all of them together."""
    if heads is not None:
        chosen = layout.check(heads)
        if not chosen:
            raise DeadheadError("check_ablation expects at least one head, got none.", "name one")
    else:
        picked = []
        for block in layout.blocks:
            layers = [attention.heads for attention in layout.of(block) if attention.heads]
            if layers:
                picked += [layers[0][min(1, len(layers[0]) - 1)], layers[-1][-1]]
        chosen = layout.check(dict.fromkeys(picked))
    single = [(head,) for head in chosen]
    return [*single, chosen] if len(chosen) > 1 else [*single]


Steps = list[Tensor] | None  # the logits of each generated token


class _Runs:
    """Runs a model on one batch, and generates the same tokens each time with a cache."""

    def __init__(self, model: Any, batch: Batch | None):
        self.model = model
        self.batch = on_device(batch_for(model) if batch is None else batch, model)
        prompt = prompt_for(model, self.batch)
        self.prompt = prompt and on_device(prompt, model)
        self.hooks = hooks_of(model)
        try:
            self.whole, _ = self.run()
        except Exception:
            if self.prompt is None:
                raise
            self.prompt = None  # a model that cannot generate from these inputs
            self.whole, _ = self.run()
        if not self.whole:
            raise DeadheadError(
                f"{type(model).__name__} gave no outputs to compare.", "give a batch of inputs"
            )
        scale = max(float(tensor.abs().nan_to_num(0, 0, 0).max()) for tensor in self.whole)
        self.noise = ROUNDING * torch.finfo(self.whole[0].dtype).eps * scale

    def limit(self, effect: float) -> float:
        """The largest difference that rounding may leave beside an effect."""
        return max(TOLERANCE * effect, self.noise)

    def run(self) -> tuple[list[Tensor], Steps]:
        """The outputs of a forward pass, and the steps of generation."""
        return outputs(self.model, self.batch), self.steps()

    def steps(self) -> Steps:
        if self.prompt is None:
            return None
        ids = self.prompt.get("input_ids")
        token = 5 if ids is None else int(ids[0, 0])
        seed(0)
        answer = self.model.generate(
            **self.prompt,
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            return_dict_in_generate=True,
            output_logits=True,
            prefix_allowed_tokens_fn=lambda row, ids: [token],
        )
        return list(answer.logits)


def _case(
    runs: _Runs,
    function: Ablation,
    right: tuple[list[Tensor], Steps],
    heads: tuple[Head, ...],
    mistakes: _Mistakes,
) -> AblationCase:
    """Compare the function with the run of correct ablation."""
    right_outputs, right_steps = right
    effect = difference(runs.whole, right_outputs)
    problems = []
    with applied(function, runs.model, heads):
        own, steps = outputs(runs.model, runs.batch), None
        try:
            steps = runs.steps()
        except (RuntimeError, ValueError, IndexError, TypeError) as problem:
            words = f"fails in generation with a cache: {' '.join(str(problem).split())[:120]}"
            hint = "a step with a cache has one position: do not rely on the length"
            problems.append(Problem("missed_cache", words, hint))
    problems += _left_behind(runs)
    distance, cached = difference(own, right_outputs), None
    if steps is not None and right_steps is not None:
        cached = difference(steps, right_steps)
    if distance > runs.limit(effect):
        problems.insert(0, mistakes.of_pass(heads, own, effect))
    elif cached is not None and steps and cached > runs.limit(effect):
        problems.insert(0, mistakes.of_cache(heads, steps, effect))
    return AblationCase(
        heads=heads, effect=effect, difference=distance, cached=cached, problems=tuple(problems)
    )


@dataclass
class _Mistakes:
    """Finds the common mistake that gives the same outputs as the function."""

    runs: _Runs
    layout: HeadLayout
    zero: bool

    def of_pass(self, heads: tuple[Head, ...], own: list[Tensor], effect: float) -> Problem:
        """The likely mistake behind the outputs of a forward pass."""
        limit = self.runs.limit(effect)

        def same(apply: AbstractContextManager[Any]) -> bool:
            with apply:
                return difference(outputs(self.runs.model, self.runs.batch), own) <= limit

        words = "removes the heads, but puts zero in their place instead of the means"
        hint = "put the means there, or leave out fill to compare with zero"
        if not self.zero and same(gated(self.runs.model, closed=heads)):
            return Problem("zero", words, hint)
        for problem, install in WRONG.items():
            installed = self._installed(install, heads)
            if installed is not None and same(installed):
                return problem
        for others, words, hint in _other_heads(self.layout, heads):
            if same(gated(self.runs.model, closed=others)):
                return Problem("other_head", words, hint)
        return Problem("unknown", "does something that deadhead does not recognise", SEAM)

    def of_cache(self, heads: tuple[Head, ...], steps: list[Tensor], effect: float) -> Problem:
        """The likely mistake in the logits of generated tokens, if the forward pass is right."""
        hint = "keep the hook until generation ends, and let it work at every length"
        installed = self._installed(first_call_only, heads)
        with installed or nullcontext():
            first_only = self.runs.steps() or []
        if difference(first_only, steps) <= self.runs.limit(effect):
            words = "removes the heads in the first pass alone, not in the steps with a cache"
            return Problem("missed_cache", words, hint)
        return Problem("missed_cache", "differs in generation with a cache alone", hint)

    def _installed(
        self, install: Install, heads: tuple[Head, ...]
    ) -> AbstractContextManager[Any] | None:
        """The model with a mistake in each layer of these heads; None where it is impossible."""
        stack = ExitStack()
        for site in find_sites(self.runs.model):
            places = [site.kept.index(head.index) for head in heads if head[:2] == site.layer_key]
            undo = install(site, places) if places else None
            if undo is not None:
                stack.callback(undo)
            elif places:
                stack.close()
                return None
        return stack


def _other_heads(
    layout: HeadLayout, heads: tuple[Head, ...]
) -> Iterator[tuple[tuple[Head, ...], str, str]]:
    """Other heads that the function may have removed, with words and a hint."""
    count = "heads, layers and blocks count from 0"
    for step, words in ((-1, "counts heads from 1"), (1, "removes the heads after these")):
        shifted = tuple(head._replace(index=head.index + step) for head in heads)
        if all(head in layout for head in shifted):
            yield shifted, f"removes other heads: it {words}", count
    for step in (-1, 1):
        shifted = tuple(head._replace(layer=head.layer + step) for head in heads)
        if all(head in layout for head in shifted):
            yield shifted, "removes the heads of another layer", count
    if len(heads) == 1:
        (head,) = heads
        for other in layout[head[:2]].heads:
            if other != head:
                yield (other,), "removes another head of the layer", count
    else:
        for head in heads:
            yield (head,), "removes one of the heads alone", "close over each head, not the last"


def _left_behind(runs: _Runs) -> Iterator[Problem]:
    """What the function did not undo; hooks and replaced methods are removed."""
    if hooks_of(runs.model) != runs.hooks:
        restore(runs.model, runs.hooks)
        hint = "remove the hooks when the block ends, in a finally clause"
        yield Problem("left_behind", "leaves its hooks on the model afterwards", hint)
    if difference(outputs(runs.model, runs.batch), runs.whole) > runs.noise:
        words = "changes the model for good: its weights are no longer the same"
        yield Problem("weights_changed", words, "use hooks, or restore the weights; load it again")


@contextmanager
def _precise(model: nn.Module) -> Iterator[None]:
    """Compute in float32 if the weights are in half precision, then restore the weights."""
    halves = [
        (tensor, tensor.data)
        for tensor in [*model.parameters(), *model.buffers()]
        if tensor.dtype in (torch.float16, torch.bfloat16)
    ]
    try:
        for tensor, data in halves:
            tensor.data = data.float()
        yield
    finally:
        for tensor, data in halves:
            tensor.data = data
