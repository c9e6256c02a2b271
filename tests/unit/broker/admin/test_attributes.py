"""Attributes of topics and groups."""

from __future__ import annotations

import pytest

from silomq.broker.admin.attributes import in_text, of_group, of_topic
from silomq.broker.processors.calls import Refused


def test_a_text_sets_and_drops() -> None:
    found = in_text("+message.type=FIFO,-reserve.time")
    assert found == {"+message.type": "FIFO", "-reserve.time": ""}
    assert of_topic(found) == ({"message.type": "FIFO"}, ["reserve.time"])
    assert in_text("") == {}


@pytest.mark.parametrize("text", ["message.type", "+message.type", "-message.type=x", "=x", "+"])
def test_a_text_that_is_none(text: str) -> None:
    with pytest.raises(Refused):
        of_topic(in_text(text))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message.type", "FIFO"),
        ("+message.type", "fifo"),
        ("+no.such", "1"),
        ("+queue.type", "BatchCQ"),
        ("+cleanup.policy", "COMPACTION"),
        ("+reserve.time", "long"),
        ("+reserve.time", "9223372036854775808"),
        ("+silomq.reserve.size", "1GiB"),
        ("+reserve.time", "\u0663"),
        ("", ""),
    ],
)
def test_what_a_topic_cannot_have(name: str, value: str) -> None:
    with pytest.raises(Refused):
        of_topic({name: value})


def test_limits_of_the_store_are_attributes_too() -> None:
    given = {"silomq.reserve.size": "5", "silomq.reserve.unconsumed": "-1"}
    assert of_topic({f"+{name}": value for name, value in given.items()}) == (given, [])


def test_groups_have_others() -> None:
    assert of_group({"+priority.factor": "100"}) == ({"priority.factor": "100"}, [])
    with pytest.raises(Refused):
        of_group({"+message.type": "FIFO"})
