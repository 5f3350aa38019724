"""The words everyone uses: heads print and parse, layouts count, shrink and refuse what is not
there.
"""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadhead.errors import DeadheadError, HeadError
from deadhead.layout import Attention, Head, HeadLayout, spans

settings.register_profile("untimed", deadline=None)  # a busy machine is no bug
settings.load_profile("untimed")

BERT = HeadLayout.grid(encoder=(12, 12))
SEQ2SEQ = HeadLayout.grid(encoder=(6, 8), decoder=(6, 8), cross=(6, 8))
LLAMA = HeadLayout(
    Attention(block="decoder", layer=layer, size=8, kept=tuple(range(8)), width=16, group=4)
    for layer in range(3)
)

names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1)
heads = st.builds(Head, names, st.integers(0, 200), st.integers(0, 200))


@given(heads)
def test_a_head_is_read_back_from_its_print(head):
    assert Head.parse(str(head)) == head
    assert Head.parse(f"  {head}\n") == head == pickle.loads(pickle.dumps(head))
    assert str(Head("encoder", 3, 7)) == "encoder.3.7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "encoder",
        "encoder.3",
        "encoder.3.7.1",
        ".3.7",
        "encoder.x.7",
        "encoder.3.-1",
        "encoder.3.7.",
        "3.7",
    ],
)
def test_what_is_no_head_is_refused(text):
    with pytest.raises(HeadError, match=r"expected a head, got") as error:
        Head.parse(text)
    assert "encoder.3.7" in (error.value.hint or "")


def test_a_layout_lists_its_heads_in_order():
    assert len(BERT) == 144 == len(list(BERT))
    assert list(BERT)[:2] == [Head("encoder", 0, 0), Head("encoder", 0, 1)]
    assert list(BERT) == sorted(BERT)
    assert Head("encoder", 11, 11) in BERT
    assert Head("encoder", 12, 0) not in BERT
    assert SEQ2SEQ.blocks == ("encoder", "decoder", "cross")
    assert (SEQ2SEQ.layers("cross"), SEQ2SEQ.size("cross")) == (6, 8)
    assert repr(BERT) == "HeadLayout(144 heads: encoder 12 x 12)"


def test_the_layers_of_a_block_come_from_the_input_up():
    shuffled = HeadLayout(reversed(BERT.attentions))
    assert [a.layer for a in shuffled.of("encoder")] == list(range(12))
    with pytest.raises(HeadError, match="expected a block of the model, got 'decoder'"):
        BERT.of("decoder")


def test_check_takes_heads_texts_and_tuples_and_orders_them():
    assert BERT.check(["encoder.5.1", Head("encoder", 0, 3), ("encoder", 2, 2)]) == (
        Head("encoder", 0, 3),
        Head("encoder", 2, 2),
        Head("encoder", 5, 1),
    )
    assert BERT.check([]) == ()


@pytest.mark.parametrize(
    ("named", "says", "hint"),
    [
        (
            ["encoder.1.1", ("encoder", 1, 1)],
            "expected each head once, got encoder.1.1 twice",
            "once",
        ),
        (["decoder.1.1"], "expected a block of the model, got 'decoder'", "encoder"),
        (["encoder.12.0"], "expected a layer of encoder, got 12", "0-11"),
        ([Head("encoder", -1, 0)], "expected a layer of encoder, got -1", "0-11"),
        (["encoder.0.12"], "expected one of the 12 heads of its layer, got 12", "0 to 11"),
        ([Head("encoder", 0, -1)], "expected one of the 12 heads of its layer, got -1", "0 to 11"),
        (
            ["encoder.4.2"],
            "encoder.4.2: expected a head that is left, got one that was removed before",
            "0-1, 3-11",
        ),
        ([7], "expected a head, got 7", "encoder.3.7"),
        ([("encoder", True, 1)], r"expected a head, got \('encoder', True, 1\)", "encoder.3.7"),
        ([("encoder", 1)], r"expected a head, got \('encoder', 1\)", "encoder.3.7"),
        ("encoder.1.1", "expected a list of heads, got 'encoder.1.1'", "list"),
        (Head("encoder", 1, 1), "expected a list of heads, got 'encoder.1.1'", "list"),
    ],
)
def test_check_refuses_with_one_clear_error(named, says, hint):
    left = BERT.without([Head("encoder", 4, 2)])
    with pytest.raises(HeadError, match=says) as error:
        left.check(named)
    assert isinstance(error.value, DeadheadError)
    assert hint in (error.value.hint or "")
    assert str(error.value).count("\n") == 1


@given(st.sets(st.sampled_from(list(SEQ2SEQ))))
def test_without_leaves_the_rest_under_their_old_numbers(cut_heads):
    left = SEQ2SEQ.without(cut_heads)
    assert list(left) == [head for head in SEQ2SEQ if head not in cut_heads]
    assert set(left.removed) == cut_heads
    assert len(left) + len(left.removed) == len(SEQ2SEQ)
    assert [(a.block, a.layer, a.size) for a in left.attentions] == [
        (a.block, a.layer, a.size) for a in SEQ2SEQ.attentions
    ]
    assert (left == SEQ2SEQ) == (not cut_heads)  # it did something, and only then


@given(st.sets(st.sampled_from(list(SEQ2SEQ))))
def test_a_layout_survives_being_written_down(cut_heads):
    left = SEQ2SEQ.without(cut_heads)
    assert HeadLayout.from_dict(left.to_dict()) == left
    assert hash(HeadLayout.from_dict(left.to_dict())) == hash(left)


def test_groups_are_heads_in_a_row():
    groups = LLAMA["decoder", 1].groups
    assert [[head.index for head in group] for group in groups] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    left = LLAMA.without(groups[0])
    assert left["decoder", 1].groups == groups[1:]
    assert left["decoder", 0].groups == LLAMA["decoder", 0].groups
    assert all(len(group) == 1 for a in BERT.attentions for group in a.groups)


@given(st.sets(st.integers(0, 60)))
def test_spans_say_every_number_once(numbers):
    assert spans([0, 1, 2, 3, 7, 9, 10, 11, 11]) == "0-3, 7, 9-11"
    message: list[int] = []
    for run in filter(None, spans(numbers).split(", ")):
        low, _, high = run.partition("-")
        message += range(int(low), int(high or low) + 1)
    assert message == sorted(numbers)
