"""Consumer groups: their members, what members are told of each other, and their locks."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    beat,
    locked,
    members,
    pull,
    subscription,
    unlock,
)
from support.harness import eventually
from support.remoting_client import Disconnected

if TYPE_CHECKING:
    from interop.servers import Servers
    from support.remoting_client import RemotingClient

CHANGED = Code.NOTIFY_CONSUMER_IDS_CHANGED
BARE = {"sysFlag": 0, "subscription": None}


def told(client: RemotingClient, group: str) -> None:
    """Waits until the server tells the client that members of the group came or went."""
    request = client.request_of_server(CHANGED, 5)
    assert request.fields["consumerGroup"] == group
    assert not request.wants_answer


@point(34, 35)
def members_are_told_of_each_other(servers: Servers) -> None:
    group, topic = "groups-members", subscription("SELF_TEST_TOPIC")
    with servers.open.connect() as first, servers.open.connect() as watcher:
        assert watcher.ask(
            Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}
        ).code == Answer.SYSTEM_ERROR  # fmt: skip
        beat(first, "first", group, topic)
        told(first, group)
        assert members(watcher, group) == ["first"]
        with servers.open.connect() as second:
            beat(second, "second", group, topic)
            told(first, group)
            told(second, group)
            assert members(watcher, group) == ["first", "second"]
            for client in (first, second):
                beat(client, "first" if client is first else "second", group, topic)
                client.listen(0.3)
                assert not client.requests, "nothing has changed"
        told(first, group)  # the second has closed its connection
        eventually(lambda: members(watcher, group) == ["first"], "the second is gone", 2)
        watcher.listen(0.2)
        assert not watcher.requests, "it is no member"


@point(35)
def a_client_takes_its_leave(servers: Servers) -> None:
    group, topic = "groups-leave", subscription("SELF_TEST_TOPIC")
    with servers.open.connect() as first, servers.open.connect() as second:
        beat(first, "first", group, topic)
        beat(second, "second", group, topic)
        told(first, group)
        told(first, group)
        answer = second.ask(Code.UNREGISTER_CLIENT, {"clientID": "second", "consumerGroup": group})
        assert answer.code == Answer.SUCCESS
        told(first, group)
        assert members(second, group) == ["first"]


@point(10)
def a_heart_beat_makes_the_retry_topic(servers: Servers) -> None:
    with servers.open.connect() as client:
        beat(client, "c", "groups-retry", subscription("SELF_TEST_TOPIC"))
        eventually(lambda: servers.open.ask_names("%RETRY%groups-retry"), "its route", 5)
        route = servers.open.ask_names("%RETRY%groups-retry")
        assert route is not None
        (data,) = route["queueDatas"]
        assert (data["readQueueNums"], data["writeQueueNums"], data["perm"]) == (1, 1, 6)
        answer = pull(client, "groups-retry", "%RETRY%groups-retry", 0, **BARE)
        assert answer.code == Answer.PULL_NOT_FOUND


@point(37)
def different_subscriptions_of_a_group_flap(servers: Servers) -> None:
    group = "groups-flap"
    servers.open.create_topic("groups-flap-a")
    servers.open.create_topic("groups-flap-b")
    with servers.open.connect() as first, servers.open.connect() as second:
        for _ in range(3):
            beat(first, "first", group, subscription("groups-flap-a"))
            assert pull(first, group, "groups-flap-a", 0, **BARE).code == Answer.PULL_NOT_FOUND
            beat(second, "second", group, subscription("groups-flap-b"))
            answer = pull(first, group, "groups-flap-a", 0, **BARE)
            assert answer.code == Answer.SUBSCRIPTION_NOT_EXIST
            assert pull(second, group, "groups-flap-b", 0, **BARE).code == Answer.PULL_NOT_FOUND
        assert members(first, group) == ["first", "second"]


@point(40)
def a_lock_is_one_clients(servers: Servers) -> None:
    group, topic = "groups-locks", "groups-locked"
    servers.open.create_topic(topic, queues=4)
    with servers.open.connect() as first, servers.open.connect() as second:
        assert locked(first, "first", group, topic, 0, 1) == {0, 1}
        assert locked(first, "first", group, topic, 1, 2) == {1, 2}
        assert locked(second, "second", group, topic, 0, 1, 2, 3) == {3}
        assert locked(second, "second", "groups-others", topic, 0) == {0}
        unlock(second, "second", group, topic, 0, 3)  # of these it has 3 alone
        assert locked(first, "first", group, topic, 0, 3) == {0, 3}
        unlock(first, "first", group, topic, 0, 1)
        assert locked(second, "second", group, topic, 0, 1, 2) == {0, 1}


@point(40)
def a_lock_ends_by_itself(servers: Servers) -> None:
    group, topic = "groups-expiry", "groups-expires"
    servers.open.create_topic(topic)
    life_s = int(servers.open.settings["lockMaxLiveTime"]) / 1000
    with servers.open.connect() as second:
        with servers.open.connect() as first:
            assert locked(first, "first", group, topic, 0) == {0}
        began = time.monotonic()
        assert locked(second, "second", group, topic, 0) == set()
        eventually(lambda: locked(second, "second", group, topic, 0) == {0}, "it ends", life_s + 5)
        assert time.monotonic() - began > life_s - 1, "a closed connection unlocks nothing"


@point(34, 37)
def heart_beats_of_other_languages_are_read(servers: Servers) -> None:
    """C++ sends enumerations as ordinals and numbers in quotes, and leaves out what is usual."""
    own = {"subString": "TagA", "subVersion": "5", "tagsSet": ["TagA"], "codeSet": ["2598919"]}
    consumer = {
        "groupName": "groups-cpp", "consumeType": 1, "messageModel": 1, "consumeFromWhere": 0,
        "subscriptionDataSet": [{"topic": "groups-cpp", **own}],
    }  # fmt: skip
    servers.open.create_topic("groups-cpp")
    sent = {"clientID": "cpp", "consumerDataSet": [consumer], "producerDataSet": [], "more": {}}
    with servers.open.connect() as client:
        assert client.ask(Code.HEART_BEAT, body=json.dumps(sent).encode() + b"\n").code == 0
        assert members(client, "groups-cpp") == ["cpp"]
        serves = servers.open.manners.serves_newer_filters
        newer = Answer.PULL_NOT_FOUND if serves else Answer.SUBSCRIPTION_NOT_LATEST
        for version, code in ((5, Answer.PULL_NOT_FOUND), (6, newer)):
            answer = pull(client, "groups-cpp", "groups-cpp", 0, **BARE, subVersion=version)
            assert answer.code == code


@point(36, slow=True)
def a_client_without_heart_beats_is_expelled(servers: Servers) -> None:
    group, topic = "groups-silent", subscription("SELF_TEST_TOPIC")
    with servers.open.connect() as silent, servers.open.connect() as watcher:
        beat(silent, "silent", group, topic)
        began = time.monotonic()
        while members(watcher, group) and time.monotonic() - began < 150:
            try:  # other requests keep the connection busy, but are no heart-beats
                silent.ask(Code.GET_MAX_OFFSET, {"topic": "SELF_TEST_TOPIC", "queueId": 0})
            except (Disconnected, ConnectionError):
                break
            time.sleep(1)
        assert members(watcher, group) == []
        assert 115 < time.monotonic() - began < 140
