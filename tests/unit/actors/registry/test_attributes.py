"""Attributes of topics and groups: others than those that a request names stay."""

from __future__ import annotations

import pytest

from silomq.actors.registry.attributes import changed
from silomq.actors.registry.refusals import Refused
from silomq.shm.protocol.requests import Alter, SetGroup


def test_attributes_are_set_and_dropped() -> None:
    before = {"a": "1", "b": "2", "c": "3"}
    request = Alter("t", set_attributes={"b": "5", "d": "6"}, drop_attributes=["a", "x"])
    assert changed(before, request) == {"b": "5", "c": "3", "d": "6"}
    assert before == {"a": "1", "b": "2", "c": "3"}


def test_their_number_is_bounded() -> None:
    before = {str(number): "" for number in range(64)}
    assert len(changed(before, SetGroup("g", set_attributes={"0": "x"}))) == 64
    with pytest.raises(Refused, match="64"):
        changed(before, SetGroup("g", set_attributes={"more": "x"}))
