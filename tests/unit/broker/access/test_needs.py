"""What each request needs."""

from __future__ import annotations

import json

import pytest
from support.broker_requests import GOOD, GROUP, TOPIC, heart_beat

from silomq.broker.access.needs import NEEDS, needs_of
from silomq.broker.access.permissions import Need, Perm
from silomq.broker.groups.heartbeats import BadBody

PUB, SUB = Need(TOPIC, Perm.PUB), Need(TOPIC, Perm.SUB)
MEMBER = Need(f"%RETRY%{GROUP}", Perm.SUB)
EXPECTED: dict[int, list[Need] | None] = {
    **{key: [PUB] for key in (10, 310, 320, 370)},
    **{key: [Need("DefaultCluster_REPLY_TOPIC", Perm.PUB)] for key in (324, 325)},
    **{key: [SUB, MEMBER] for key in (11, 361, 14, 15, 400)},
    **{key: [SUB, MEMBER] for key in (*range(200050, 200056), 200151)},
    **{key: [SUB] for key in (12, 29, 30, 31, 32)},
    **{key: [MEMBER, SUB] for key in (34, 46)},
    **{key: [MEMBER] for key in (36, 38, 41, 42, 352)},
    351: [Need(TOPIC, Perm.PUB | Perm.SUB, either=True)],
    35: [Need("%RETRY%nobody", Perm.SUB)],
    **{key: [] for key in (33, 37, 105, 106, 206, 224, 304, 311, 101)},
    **dict.fromkeys((17, 18, 50, 51, 52, 53, 215, 200, 207, 225, 222, 307, 309, 323, 329)),
    **dict.fromkeys((21, 25, 26, 28, 43, 45, 60, 201, 202, 203, 204, 205, 208, 216, 223, 327, 907)),
    **dict.fromkeys((300, 303, 305, 306, 308, 314, 315, 316, 317, 321, 328, 343, 345, 353)),
    **dict.fromkeys((401, 402)),
}


@pytest.mark.parametrize("code", GOOD)
def test_the_table(code: int) -> None:
    asked = GOOD[code]
    fields = {name: str(value) for name, value in asked.fields.items()}
    found = needs_of(code, fields, asked.body)
    assert found == EXPECTED[code]


def test_every_request_that_is_served_has_a_row() -> None:
    assert set(GOOD) <= set(NEEDS)
    assert needs_of(9999, {}, b"") is None, "only an administrator's, until somebody decides"


def test_retry_topics_are_checked_by_the_group_in_their_name() -> None:
    fields = {"topic": "%RETRY%mine", "b": "%RETRY%theirs", "group": "mine", "a": "mine"}
    assert needs_of(10, fields, b"") == [Need("%RETRY%mine", Perm.SUB)]
    assert needs_of(310, fields, b"") == [Need("%RETRY%theirs", Perm.SUB)]
    fields = {"topic": "%RETRY%theirs", "consumerGroup": "mine"}
    assert needs_of(11, fields, b"") == [
        Need("%RETRY%theirs", Perm.SUB),
        Need("%RETRY%mine", Perm.SUB),
    ]


def test_a_retry_topic_for_popping_is_its_groups() -> None:
    for sign in "_+":
        fields = {"topic": f"%RETRY%mine{sign}orders", "consumerGroup": "mine"}
        assert needs_of(200051, fields, b"") == [Need("%RETRY%mine", Perm.SUB)]
        fields["consumerGroup"] = "min"
        assert Need(fields["topic"], Perm.SUB) in (needs_of(200051, fields, b"") or [])


def test_a_heart_beat_needs_all_that_it_subscribes_to() -> None:
    names = ["a", f"%RETRY%{GROUP}", "%RETRY%other"]
    body = heart_beat(subscriptionDataSet=[{"topic": name} for name in names])
    assert needs_of(34, {}, body) == [MEMBER, *(Need(name, Perm.SUB) for name in names)]
    only_sends = json.dumps({"clientID": "c", "producerDataSet": [{"groupName": "g"}]})
    assert needs_of(34, {}, only_sends.encode()) == []


def test_what_lacks_a_name_needs_the_permission_of_no_name() -> None:
    assert needs_of(10, {}, b"") == [Need("", Perm.PUB)]
    assert needs_of(35, {"producerGroup": "g"}, b"") == []
    for code in (34, 41, 46):
        with pytest.raises(BadBody):
            needs_of(code, {}, b"{")
