"""What may change while a name server runs."""

from __future__ import annotations

import pytest

from silomq.broker.wire.headers import BadHeader
from silomq.names.configuration import Configuration


def test_ordered_topics_may_be_switched_on() -> None:
    found = Configuration(ordered_topics=False)
    assert found.settings()["orderMessageEnable"] == "false"
    found.change({"orderMessageEnable": "true", "unknown": "x", "clusterTest": "false"})
    assert found.ordered_topics
    assert found.settings()["orderMessageEnable"] == "true"


@pytest.mark.parametrize(
    "wanted", [{"orderMessageEnable": "maybe"}, {"supportActingMaster": "true"}]
)
def test_others_may_not(wanted: dict[str, str]) -> None:
    found = Configuration(ordered_topics=True)
    with pytest.raises(BadHeader):
        found.change({"orderMessageEnable": "false", **wanted})
    assert found.ordered_topics, "all or nothing"
