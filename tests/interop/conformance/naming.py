"""Routes: what clients learn about topics and brokers from the name server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import Answer, send
from interop.servers import CLUSTER, NAME
from support.harness import eventually
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from interop.servers import Servers


@point(8)
def the_default_topic_has_a_route(servers: Servers) -> None:
    assert servers.open.ask_names("nobody-has-it") is None
    route = servers.open.ask_names("TBW102")
    assert route is not None
    (queues,) = route["queueDatas"]
    assert (queues["brokerName"], queues["perm"]) == (NAME, 7)
    (broker,) = route["brokerDatas"]
    assert broker["brokerAddrs"] == {"0": servers.open.broker}
    assert (broker["brokerName"], broker["cluster"]) == (NAME, CLUSTER)


@point(9)
def ids_of_brokers_have_quotes_for_new_clients(servers: Servers) -> None:
    bare = f'"brokerAddrs":{{0:"{servers.open.broker}"}}'.encode()
    quoted = bare.replace(b"{0:", b'{"0":')
    with RemotingClient(servers.open.names) as client:
        for version, more, form in (
            (399, {}, bare),
            (317, {}, bare),
            (399, {"acceptStandardJsonOnly": "true"}, quoted),
            (401, {}, quoted),
            (479, {}, quoted),
        ):
            client.version = version
            assert form in client.ask(105, {"topic": "TBW102", **more}).body, version


@point(10)
def a_message_makes_its_topic(servers: Servers) -> None:
    with servers.open.connect() as client:
        for queues, made in ((4, 4), (2, 2), (100, 8)):
            topic = f"naming-new-{queues}"
            answer = send(client, topic, b"x", defaultTopicQueueNums=queues)
            assert answer.code == Answer.SUCCESS, answer.remark
            eventually(partial(servers.open.ask_names, topic), "its route", 2)
            route = servers.open.ask_names(topic)
            assert route is not None
            (data,) = route["queueDatas"]
            found = (data["readQueueNums"], data["writeQueueNums"], data["perm"])
            assert found == (made, made, 6)


@point(11)
def a_strict_server_makes_no_topic(servers: Servers) -> None:
    assert servers.strict.ask_names("TBW102") is None
    with servers.strict.connect() as client:
        answer = send(client, "naming-never", b"x")
        assert answer.code == Answer.TOPIC_NOT_EXIST
    assert servers.strict.ask_names("naming-never") is None
