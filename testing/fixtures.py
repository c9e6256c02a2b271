"""The fixtures: `silomq_server` of the session, and `silomq` of each test."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .server import DevServer

_numbers = itertools.count(1)


class Messaging:
    """What one test has of the session's broker."""

    def __init__(self, server: DevServer) -> None:
        self._server = server
        self._suffix = f"{os.getpid()}-{next(_numbers)}"
        self._topics: list[str] = []
        self._groups: list[str] = []

    @property
    def address(self) -> str:
        """HOST:PORT, which any RocketMQ client takes as its name server."""
        return self._server.address

    @property
    def store(self) -> Path:
        """The folder of the store, for the clients of this package."""
        return self._server.store

    def topic(self, name: str = "topic", queues: int = 4) -> str:
        """A new topic with so many queues. Its name begins with `name`, and no other test has it.

        Each call makes another topic. All of them are deleted after the test. Raises
        IllegalArgument for a name that RocketMQ does not allow.
        """
        from ..client.admin.admin import Admin

        topic = f"{name}-{self._suffix}-{len(self._topics)}"
        with Admin(self.store) as admin:
            admin.create_topic(topic, queues)
        self._topics.append(topic)
        return topic

    def group(self, name: str = "group") -> str:
        """The name of a group that no other test has. The first consumer or producer makes it."""
        group = f"{name}-{self._suffix}-{len(self._groups)}"
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Deletes the topics. Groups stay: their members may still be about to leave."""
        from ..client.admin.admin import Admin

        if self._topics:
            with Admin(self.store) as admin:
                for topic in self._topics:
                    admin.delete_topic(topic)


@pytest.fixture(scope="session")
def silomq_server() -> Iterator[DevServer]:
    """`silo dev` on a free port, started once for all tests of the session (of each worker with
    pytest-xdist).
    """
    from .server import DevServer

    with DevServer() as server:
        yield server


@pytest.fixture
def silomq(silomq_server: DevServer) -> Iterator[Messaging]:
    """The session's broker, with topics and groups of the test's own."""
    messaging = Messaging(silomq_server)
    yield messaging
    messaging.close()
