"""Names of topics and groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import NAME_CHARACTERS, TOPICS

from silomq.store import names
from silomq.store.errors import IllegalMessage
from silomq.store.status import PutMessageStatus


@given(TOPICS.filter(lambda name: len(name) <= 127))
def test_legal_names_are_taken(name: str) -> None:
    assert names.validate_topic(name) == name.encode() == names.validate_group(name)


@given(st.text(max_size=140))
def test_any_text_is_either_safe_or_refused(name: str) -> None:
    limit = 255 if name.startswith(names.RETRY_PREFIX) else 127
    for validate, most in ((names.validate_topic, limit), (names.validate_group, 127)):
        if 0 < len(name) <= most and set(name) <= set(NAME_CHARACTERS):
            assert validate(name) == name.encode()
            continue
        with pytest.raises(IllegalMessage) as e:
            validate(name)
        assert e.value.status == PutMessageStatus.MESSAGE_ILLEGAL
        assert str(e.value).isascii()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\0", "a b", "a\n", "té", "a.b", "名", "\x1b[31m", "~", "a#b"]
)
def test_illegal_names_are_refused(name: str) -> None:
    for validate in (names.validate_topic, names.validate_group):
        with pytest.raises(IllegalMessage, match=r"allowed are .*letters a-z"):
            validate(name)


def test_the_character_and_its_position_are_said() -> None:
    with pytest.raises(IllegalMessage, match=r"topic name 'ab/c' has '/' at position 2; allowed"):
        names.validate_topic("ab/c")


def test_names_may_have_so_many_bytes() -> None:
    assert len(names.validate_topic("t" * 127)) == 127
    assert len(names.validate_topic("%RETRY%" + "g" * 248)) == 255
    for name in ("t" * 128, "%RETRY%" + "g" * 249, "x" * 10_000_000):
        with pytest.raises(IllegalMessage, match="bytes; at most") as e:
            names.validate_topic(name)
        assert len(str(e.value)) < 250
    with pytest.raises(IllegalMessage, match="128 bytes"):
        names.validate_group("g" * 128)


def test_system_topics_are_known() -> None:
    assert names.is_system_topic(names.SCHEDULE_TOPIC)
    assert names.is_system_topic("rmq_sys_x")
    assert not names.is_system_topic("TopicTest")
    assert names.SCHEDULE_TOPIC in names.UNSENDABLE_TOPICS
    assert names.BENCHMARK_TOPIC not in names.UNSENDABLE_TOPICS
    assert names.validate_topic(names.retry_topic("g" * 127))
