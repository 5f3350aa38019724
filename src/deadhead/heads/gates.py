"""Gates at the input of the output projection, as hooks that are removed afterwards.

There one multiplication is masking (a closed gate), soft weighting (any number) or, with a gate
that requires its gradient, a score.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from deadhead.errors import HeadError
from deadhead.forward import is_encoder_decoder
from deadhead.layout import FeedForward, Head, HeadLayout, LayerKey, Neurons, SiteKey

from .call import Calls
from .captured import Captured
from .discover import find_every_site, find_sites, layout_of
from .fill import RESAMPLE, ZERO, Fill, Values, check_fill, values_of
from .hooks import attach, hooked, resampled
from .output_bias import hide_bias, refuse_bias_outside
from .positions import Where, positions_of_blocks
from .rows import is_of_decoder
from .site import Site
from .streaming import RECENT, SINK, Streaming

Gates = torch.Tensor | Mapping[str, "float | torch.Tensor"] | Mapping[Head, "float | torch.Tensor"]
NeuronGates = Mapping[LayerKey, torch.Tensor]
ReadGates = Callable[[], torch.Tensor]  # reads the gates of a layer at the time of the forward pass


@contextmanager
def gated(
    model: nn.Module,
    gates: Gates | None = None,
    *,
    closed: Iterable[Head | str] = (),
    neurons: Neurons | None = None,
    neuron_gates: NeuronGates | None = None,
    fill: Fill = "zero",
    positions: Any = None,
    seed: int = 0,
    drop_output_bias: bool = False,
    streaming: Iterable[Head | str] = (),
    sink: int = SINK,
    recent: int = RECENT,
) -> Iterator[nn.Module]:
    """Run the model with some heads closed, or with any gate at every head; then restore it.

    Args:
        gates: the factor for the output of each head. A tensor of layers x heads (for a model with
            one block of attention), or one for each block, `{"encoder": tensor}`; with a batch
            axis in front, every example has its own gates. Or a number per head,
            `{"encoder.3.7": 0.5}`; other heads stay open. The columns of a tensor count
            heads before any pruning; those of removed heads are ignored.
        closed: heads whose gate is 0.
        neurons: feed-forward neurons whose gate is 0, `{("encoder", 3): [17, 18]}`, counted from 0
            before any pruning.
        neuron_gates: the factor for each neuron of a layer, `{("encoder", 3): tensor}`; with a
            batch axis in front, every example has its own.
        fill: what a head gives instead, as far as its gate is closed: the layer reads
            `gate * head + (1 - gate) * fill`.
            - "zero": nothing.
            - means = head_means(model, batches): the mean output of the head; for neurons
              `head_means(model, batches, neurons=True)`.
            - "resample": the output of the head for another example of the batch, by a seeded
              permutation; the i-th real token gets that of the other example's i-th real token,
              from its first again where the other example is shorter.
            - Streaming(sink=4, recent=256): the output of the head when it sees these tokens alone.
            - a run, `with captured(model) as clean: model(**batch)`: the output of the head in it,
              for inputs of the same shape and padding (activation patching).
        positions: work only at these token positions, elsewhere the gates are open: numbers, -1
            is the last position of the padded row; or a mask of booleans, length or batch x
            length. For gates in several blocks one for each,
            `{"decoder": [3, -1]}`; blocks that it leaves out are gated at all positions.
        seed: of "resample". One permutation holds for all heads and calls.
        drop_output_bias: where all gates of a layer are 0, also leave out its output bias, as
            `prune` does with the same argument.
        streaming: heads that see only the first `sink` and the last `recent` tokens, whose output
            the other gates then read. It computes the attention of their layers twice, and needs
            an attention kernel that takes masks: eager or sdpa.

    The gates belong to the thread that opened the block: another thread that gates or runs the
    same model at the same time gets an error. A copy made inside the block is not gated.

    Gates may require gradients; run `backward` inside the block if the model uses gradient
    checkpointing, which runs the forward pass again. Gradients also reach the values of a fill
    that require them. Blocks may be nested: the gates of an inner block read what those of the
    outer blocks give, so gates multiply, and the fill of the innermost closed gate remains.

    Generation works with gates. With a cache, "resample" pairs the tokens of each step; it refuses
    a batch that has copies of its examples, as under beam search. After
    the first step, positions need generation without a cache, and a captured run does not fit;
    both fit the encoder of an encoder-decoder, which generation runs once.

    >>> with gated(model, closed=["encoder.3.7"]):
    ...     logits = model(**batch).logits
    """
    # Longer than most functions: half of it describes the arguments.
    of_neurons = bool(neurons or neuron_gates)
    sites = find_every_site(model, "neurons") if of_neurons else find_sites(model)
    layout = layout_of(sites)
    windowed, window = layout.check(streaming), Streaming(sink=sink, recent=recent)
    if not windowed and window != Streaming():
        message = "`sink` and `recent` are the window of streaming heads, got none of those."
        raise HeadError(message, 'name them: gated(model, streaming=["decoder.3.7"], sink=4)')
    readers = _readers(layout, gates, set(layout.check(closed)))
    readers |= _neuron_readers(layout, neurons, neuron_gates)
    check_fill(fill, layout)
    blocks = tuple(dict.fromkeys(site.block for site in sites))
    at = positions_of_blocks(positions, blocks, [block for _, block, _ in readers])
    if drop_output_bias:
        refuse_bias_outside(sites)
        _refuse_fill(fill, positions)
    in_steps = {
        site.block
        for site in sites
        if site.key in readers and (is_of_decoder(model, site) or not is_encoder_decoder(model))
    }
    whole = "fill" if in_steps and isinstance(fill, Captured) else ""
    whole = "positions" if in_steps.intersection(at) else whole
    with hooked(model, sites) as stack:
        if windowed:
            stack.enter_context(gated(model, closed=windowed, fill=window, positions=positions))
        if fill == RESAMPLE:
            stack.enter_context(resampled(model))
        calls = Calls(model, stack, whole) if at or fill != ZERO else None
        for site in sites:
            read = readers.get(site.key)
            if read is not None and site.kept:
                gate = _Gate(site, read)
                if calls is not None and fill != ZERO:
                    gate.fill = values_of(fill, site, calls, seed, stack)
                if calls is not None and site.block in at:
                    gate.where = Where(site, at[site.block], calls)
                stack.callback(attach(site, gate))
                if drop_output_bias and site.kind == "heads":
                    for use in site.uses:
                        stack.callback(hide_bias(use, read))
        yield model


class _Gate:
    """Multiplies each head by its gate, which is read at each call, and adds the rest of a fill.

    So it does with neurons.
    """

    fill: Values | None = None
    where: Where | None = None

    def __init__(self, site: Site, read: ReadGates):
        self.read, self.width, self.batch_axis = read, site.width, 1 if site.time_first else 0
        self.name = f"{site.block} layer {site.layer}"

    def __call__(self, context: torch.Tensor) -> torch.Tensor:
        gate = self.read().to(context.dtype).to(context.device)
        if gate.dim() == 2:
            if context.dim() < 3 or context.shape[self.batch_axis] != len(gate):
                raise self._wrong_batch(context, len(gate))
            shape = [1] * (context.dim() - 1)
            shape[self.batch_axis] = len(gate)
            gate = gate.view(*shape, -1)
        if self.width > 1:
            gate = gate.repeat_interleave(self.width, dim=-1)
        if self.fill is None:
            blend = context * gate
        else:
            blend = torch.addcmul((1 - gate) * self.fill(context), context, gate)
        return blend if self.where is None else torch.where(self.where(context), blend, context)

    def _wrong_batch(self, context: torch.Tensor, rows: int) -> HeadError:
        got = context.shape[self.batch_axis] if context.dim() > 2 else 1
        hint = "give the gates one row per example of the batch"
        if got > rows and got % rows == 0:  # as under beam search
            hint += (
                f"; beam search, num_return_sequences and multiple choice run {got // rows} rows "
                f"per example in {self.name.split()[0]} layers, so repeat the rows of that block "
                f"there: gates.repeat_interleave({got // rows}, dim=0)"
            )
        return HeadError(f"{self.name} expected gates for {got} examples, got {rows}.", hint)


def _refuse_fill(fill: Fill, positions: Any) -> None:
    if fill != ZERO or positions is not None:
        name = "positions" if fill == ZERO else "fill"
        raise HeadError(
            f"drop_output_bias expects heads that are closed everywhere with zero, got `{name}`.",
            f"leave drop_output_bias or {name} out",
        )


def _readers(
    layout: HeadLayout, gates: Gates | None, closed: set[Head]
) -> dict[SiteKey, ReadGates]:
    """For each attention layer with a gate that may not be 1, the function that reads its gates."""
    readers: dict[SiteKey, ReadGates] = {}
    tensors, numbers = _sorted_gates(layout, gates)
    for block in layout.blocks:
        for row, attention in enumerate(layout.of(block)):
            tensor, heads = tensors.get(block), attention.heads
            if tensor is not None or not (closed | numbers.keys()).isdisjoint(heads):
                rows = None if tensor is None else _rows(tensor, row, attention.kept)
                factors = torch.tensor([0.0 if head in closed else 1.0 for head in heads])
                of_heads = [numbers.get(head) for head in heads]
                readers["heads", block, attention.layer] = _reader(rows, of_heads, factors)
    return readers


def _neuron_readers(
    layout: HeadLayout, closed: Neurons | None, gates: NeuronGates | None
) -> dict[SiteKey, ReadGates]:
    """The same for each feed-forward layer with a neuron that is closed or has a gate."""
    readers: dict[SiteKey, ReadGates] = {}
    numbers, tensors = layout.check_neurons(closed), dict(gates or {})
    layout.check_neurons(dict.fromkeys(tensors, ()))  # raises an error for a layer without neurons
    for layer in layout.feed_forwards:
        key = layer.layer_key
        if key in numbers or key in tensors:
            factors = torch.ones(layer.size)
            factors[list(numbers.get(key, ()))] = 0
            rows = None
            if key in tensors:
                _check_neuron_gates(layer, tensors[key])
                rows = _rows(tensors[key], None, layer.kept)
            readers["neurons", *key] = _reader(rows, [], factors[list(layer.kept)])
    return readers


def _check_neuron_gates(layer: FeedForward, tensor: Any) -> None:
    is_tensor = isinstance(tensor, torch.Tensor)
    if not is_tensor or tensor.dim() not in (1, 2) or tensor.shape[-1] != layer.size:
        got = f"shape {tuple(tensor.shape)}" if is_tensor else type(tensor).__name__
        raise HeadError(
            f"neuron_gates of {layer.block} layer {layer.layer} expect a tensor of {layer.size} "
            f"numbers, got {got}.",
            "for gates of each example, put an axis for the batch in front",
        )


def _rows(tensor: torch.Tensor, row: int | None, kept: tuple[int, ...]) -> ReadGates:
    """Reads the gates of what a layer has left. row: of its block; None: of one layer alone."""
    # once, not at each call: a layer has thousands of neurons
    left = torch.tensor(kept, dtype=torch.long) if len(kept) < tensor.shape[-1] else slice(None)
    return lambda: (tensor if row is None else tensor[..., row, :])[..., left]


def _reader(
    rows: ReadGates | None, numbers: list[float | torch.Tensor | None], factors: torch.Tensor
) -> ReadGates:
    """rows: reads a tensor of gates; numbers: of single heads; factors: 0 for closed heads."""
    any_number = any(number is not None for number in numbers)
    all_open = bool((factors == 1).all())
    exact = torch.empty(0, dtype=torch.float64)  # a model may be in double precision

    def read() -> torch.Tensor:
        gate = None if rows is None else rows()
        if any_number:
            first = next((n for n in numbers if isinstance(n, torch.Tensor)), exact)
            values = [
                n if isinstance(n, torch.Tensor) else first.new_tensor(1.0 if n is None else n)
                for n in numbers
            ]
            stacked = torch.stack(values)
            if gate is not None:
                stacked = gate * (stacked.to(gate) if first is exact else stacked)
            gate = stacked
        if gate is None or all_open:
            return factors if gate is None else gate
        return gate * factors.to(gate.device)

    return read


def _sorted_gates(
    layout: HeadLayout, gates: Gates | None
) -> tuple[dict[str, torch.Tensor], dict[Head, float | torch.Tensor]]:
    """The gates of the user as one tensor per block, and one number per head."""
    tensors = {}
    numbers = {}
    blocks = ", ".join(layout.blocks)
    if isinstance(gates, torch.Tensor):
        if len(layout.blocks) > 1:
            raise HeadError(
                f"expected one tensor of gates for each block with attention in {blocks}, "
                "got a single tensor.",
                f"write gates={{{layout.blocks[0]!r}: tensor, ...}}",
            )
        tensors[layout.blocks[0]] = gates
    elif isinstance(gates, Mapping):
        for key, value in gates.items():
            if isinstance(key, Head) or (isinstance(key, str) and key.count(".") == 2):
                (head,) = layout.check([key])
                numbers[head] = _number(head, value)
            elif isinstance(value, torch.Tensor) and key in layout.blocks:
                tensors[key] = value
            else:
                raise HeadError(
                    f"gates expect a tensor per block ({blocks}) or a number per Head, "
                    f"got {key!r}.",
                    f'write gates={{"{layout.blocks[0]}": tensor}} or '
                    f'gates={{"{layout.blocks[0]}.0.1": 0.5}}',
                )
    elif gates is not None:
        raise HeadError(
            f"gates expect a tensor or a mapping, got {type(gates).__name__}.",
            "to close heads, write gated(model, closed=heads)",
        )
    for block, tensor in tensors.items():
        layers, size = layout.layers(block), layout.size(block)
        if tensor.dim() not in (2, 3) or tuple(tensor.shape[-2:]) != (layers, size):
            raise HeadError(
                f"gates of {block} expect layers x heads = {layers} x {size}, "
                f"got shape {tuple(tensor.shape)}.",
                "for gates of each example, put an axis for the batch in front",
            )
    return tensors, numbers


def _number(head: Head, value: Any) -> float | torch.Tensor:
    if isinstance(value, torch.Tensor) and value.dim() == 0:
        return value
    if isinstance(value, bool | int | float):
        return float(value)
    is_tensor = isinstance(value, torch.Tensor)
    got = f"a tensor of shape {tuple(value.shape)}" if is_tensor else repr(value)
    raise HeadError(
        f"the gate of {head} expects one number, got {got}.",
        "for gates of each example pass {block: tensor}",
    )
