"""RocketMQ's own push consumer pops from `silo broker`, if its group is told to.

The long form runs the same against RocketMQ's own broker, which shows that the tests ask for no
more than RocketMQ does.
"""

from __future__ import annotations

import contextlib
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from interop.brokers import QUEUES, Server, rocketmq_server, silomq_server
from interop.clients import Clients
from support.harness import LONG, eventually
from support.name_servers import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
CLIENT = "java-5.3.3"
COUNT = 200
#: RocketMQ's broker keeps what is leased in its timer wheel.
KINDS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "silomq": silomq_server,
    "rocketmq": partial(rocketmq_server, timerWheelEnable="true"),
}


@pytest.fixture(params=["silomq", pytest.param("rocketmq", marks=LONG)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with KINDS[request.param](tmp_path) as running:
        yield running


def ask(server: Server, code: int, body: object = None, **fields: object) -> dict[str, str]:
    """The fields of the broker's answer, which must be good."""
    with contextlib.closing(Peer(server.broker_address)) as peer:
        texts = {name: str(value) for name, value in fields.items()}
        answer = peer.ask(code, texts, json.dumps(body).encode() if body is not None else b"")
    assert answer.code == 0, answer
    return answer.fields


def test_a_group_pops(server: Server, tmp_path: Path) -> None:
    """Two consumers share all queues, one message fails twice, and all is acknowledged at last."""
    clients = Clients(server.names, tmp_path)
    topic = server.make_topic("work")
    group = server.make_group("workers", 16)
    mode = {"consumerGroup": group, "topic": topic, "mode": "POP", "popShareQueueNum": 0}
    ask(server, 401, mode)
    bodies: list[str] = []
    consumers = [
        clients.consumer(CLIENT, group, topic, pop=True, refuse=refuse) for refuse in (0, 0)
    ]
    with contextlib.ExitStack() as both:
        running = [both.enter_context(consumer) for consumer in consumers]

        def both_have_some() -> bool:
            """A consumer that says that it runs may not pop yet, and the other takes all."""
            more = [f"m{len(bodies) + number}" for number in range(COUNT)]
            bodies.extend(more)
            clients.send(CLIENT, topic, [{"body": body, "tags": "t"} for body in more])
            return all(one.received() for one in running)

        eventually(both_have_some, "both consumers have some of the messages", 60)

        def all_received() -> bool:
            found = [line["body"] for one in running for line in one.received()]
            return set(found) == set(bodies)

        eventually(all_received, "all messages are received", 60)

        def all_done() -> bool:
            offsets = [
                ask(server, 14, consumerGroup=group, topic=topic, queueId=queue)["offset"]
                for queue in range(QUEUES)
            ]
            return sum(map(int, offsets)) == len(bodies)

        eventually(all_done, "all messages are acknowledged", 30)
    found = [line for one in running for line in one.received()]
    assert len(found) == len(bodies), "each once"


def test_a_message_that_fails_comes_again(server: Server, tmp_path: Path) -> None:
    """After 10 s, the first of the client's times."""
    clients = Clients(server.names, tmp_path)
    topic = server.make_topic("fails")
    group = server.make_group("patient", 16)
    ask(server, 401, {"consumerGroup": group, "topic": topic, "mode": "POP"})
    with clients.consumer(CLIENT, group, topic, pop=True, refuse=1) as running:
        clients.send(CLIENT, topic, [{"body": "bad", "tags": "t"}])
        first, second = running.wait_for("received", 2)
    assert (first["times"], second["times"]) == (0, 1)
    assert 9_000 < second["at"] - first["at"] < 30_000
