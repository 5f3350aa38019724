"""Gates belong to one thread and one model object: nobody else gets them without being told."""

import threading
from typing import Any

import pytest
import torch

from deadhead import discover, gated, prune, rank
from deadhead.errors import HeadError, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, hooks, limit


def in_thread(work):
    """What the work returns or raises in a thread of its own."""
    box: list[Any] = []

    def target():
        try:
            box.append(work())
        except Exception as problem:
            box.append(problem)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return box[0]


def closing(model, number):
    with gated(model, closed=[list(discover(model))[number]]):
        return answers(model)


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_a_second_thread_is_refused_while_the_first_has_gates(family):
    model = build(family)
    before, alone = hooks(model), closing(model, 1)
    with gated(model, closed=[next(iter(discover(model)))]):
        assert isinstance(in_thread(lambda: closing(model, 1)), UnsupportedModel)
        problem = in_thread(lambda: answers(model))  # without gates of its own it would get ours
        assert "another thread has gated it" in str(problem)
        assert "copy.deepcopy" in str(problem)
    assert apart(in_thread(lambda: closing(model, 1)), alone) <= limit(model)  # afterwards it may
    assert hooks(model) == before


def test_gates_of_each_example_name_the_way_under_beam_search():
    model = build("gpt2").float()
    layout = discover(model)
    gates = torch.ones(2, layout.layers("decoder"), layout.size("decoder"))
    gates[0] = 0.5
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    options: dict[str, Any] = {
        "num_beams": 3,
        "max_new_tokens": 4,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    with pytest.raises(HeadError, match=r"repeat_interleave\(3, dim=0\)"), gated(model, gates):
        model.generate(ids, **options)
    with gated(model, gates.repeat_interleave(3, dim=0)):
        together = model.generate(ids, **options)
    for row in range(2):
        with gated(model, gates[row]):
            assert torch.equal(model.generate(ids[row : row + 1], **options)[0], together[row])


def test_the_real_wrapper_is_refused_too(tmp_path):
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1
    )
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(build("bert"))
        with pytest.raises(UnsupportedModel, match="DistributedDataParallel"):
            prune(wrapped, ["encoder.0.1"])
    finally:
        distributed.destroy_process_group()


def test_weights_loaded_under_inference_mode_get_one_clear_error():
    with torch.inference_mode():
        model = build("bert").float()
    batch = {**batch_of(model)}
    batch["labels"] = batch["input_ids"].clone()
    with pytest.raises(UnsupportedModel, match="inference_mode"):
        rank(model, [batch], "gradient")
