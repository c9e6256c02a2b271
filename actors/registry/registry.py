"""registry: the clients' door. Sessions, topics, and the right to write to them.

The only writer of topics, queues and grants in the topic table, and of `config/topics.json`
(`actors/registry/topics.py`). It serves a Unix socket, one packet a request (`shm/mail.py`); every
request may be repeated, because a client repeats what it had asked when it hears that the registry
was replaced. The connections themselves outlive it: the supervisor holds them.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import selectors
import socket
import struct
import time
from typing import Any

from ...conf.settings import FlushDiskType
from ...shm import mail, ring
from ...shm.control import StoreState
from ...shm.segments import open_segment
from ...store.errors import IllegalMessage
from ...store.record.ids import Host
from ...store.status import AckLevel, PutMessageStatus
from ...store.topics.table_changes import repair
from ...store.topics.topic_table import TableFull
from ..actor import TICK_S, Actor, Session
from .groups import Groups
from .system_topics import SystemTopics
from .topics import Refused

PROTOCOL = 1


class Registry(Actor):
    """Answers clients until the store stops."""

    name = "registry"

    def setup(self) -> None:
        self.table = self.world.table
        self.state = self.control.word("state")
        self.manual_asked = self.control.own("manual_asked")
        filed = repair(self.table)
        if filed:
            self.logger.warning("filed queues that a killed registry had not", queues=filed)
        self.topics = SystemTopics(self.world, self.logger, self.beat)
        self.control_fd = open_segment(self.world.store_id, "control")
        self.table_fd = open_segment(self.world.store_id, "table")
        self.inbox = self.world.registry_mail[1]
        self.sessions = dict(self.world.sessions)
        self.by_connection: dict[int, int] = {}
        self.connections: dict[int, socket.socket] = {}
        self.groups = Groups(self.world, self.logger, self.topics, self._expel)
        self.selector = selectors.DefaultSelector()
        for fd in (self.world.listener, self.inbox, self.signal_fd):
            self.selector.register(fd, selectors.EVENT_READ)
        self.group = self._allowed_group()
        for session in self.sessions.values():
            self._adopt(session)

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            for key, _ in self.selector.select(self._patience()):
                self.beat()  # a thousand requests may wait
                if key.fileobj is self.world.listener:
                    self._accept()
                elif key.fileobj is self.inbox:
                    self._read_mail()
                elif isinstance(key.fileobj, socket.socket):
                    self._serve(key.fileobj)
            if self.topics.unsaved_since and self.topics.due_in() <= 0.0:
                self.topics.save()
            self.groups.tick()

    def teardown(self) -> None:
        topics: SystemTopics | None = getattr(
            self, "topics", None
        )  # `setup` may have failed before
        if topics is not None and topics.unsaved_since:
            topics.save()
        groups: Groups | None = getattr(self, "groups", None)
        if groups is not None:
            groups.stop()

    def _patience(self) -> float:
        due = max(0.0, self.topics.due_in()) if self.topics.unsaved_since else TICK_S
        return min(due, self.groups.patience())

    # -- connections

    def _allowed_group(self) -> int:
        name = self.settings.socket_group
        found = grp.getgrnam(name) if name else None
        self.members = found.gr_mem if found else []
        return found.gr_gid if found else -1

    def _may_connect(self, connection: socket.socket) -> bool:
        """The store's own user, root, and members of the configured group."""
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, gid = struct.unpack("iII", data)
        if uid in (0, os.getuid()) or gid == self.group:
            return True
        if self.group < 0:
            return False
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            return False
        return user in self.members

    def _accept(self) -> None:
        try:
            connection, _ = self.world.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        if not self._may_connect(connection):
            why = (
                "this user may not use the store: join the group that socket_group names, "
                "or run as its user"
            )
            self._answer(connection, {"ok": False, "status": "SERVICE_NOT_AVAILABLE", "why": why})
            connection.close()
            return
        self.connections[connection.fileno()] = connection
        self.selector.register(connection, selectors.EVENT_READ)

    def _adopt(self, session: Session) -> None:
        """Goes on with a connection that a predecessor served."""
        if session.closing or session.connection < 0:
            return
        connection = socket.socket(fileno=session.connection)
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        self.connections[connection.fileno()] = connection
        self.by_connection[connection.fileno()] = session.number
        self.selector.register(connection, selectors.EVENT_READ)
        # A client that has asked nothing for long has not read the news of earlier restarts either.
        with contextlib.suppress(OSError):
            mail.send(connection, {"event": "registry restarted"})

    def _answer(
        self, connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()
    ) -> None:
        """A client that does not read its answers, or is gone, loses its connection."""
        try:
            mail.send(connection, message, fds)
        except OSError:
            self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        fd = connection.fileno()
        if fd < 0 or fd not in self.connections:
            return
        self.selector.unregister(connection)
        del self.connections[fd]
        number = self.by_connection.pop(fd, None)
        connection.close()
        if number is not None:
            self.sessions[number].closing = True
            self.groups.leave(number)
            self.table.lease(self.sessions[number].index, None)
            mail.post(self.inbox, {"do": "closing", "session": number})

    def _serve(self, connection: socket.socket) -> None:
        try:
            request, fds = mail.receive(connection)
        except BlockingIOError:
            return
        except OSError:  # it died with an answer unread
            self._hang_up(connection)
            return
        except ValueError as error:
            self.logger.warning("a client's packet makes no sense: hanging up", error=str(error))
            self._hang_up(connection)
            return
        mail.close_all(fds)
        if request is None:
            self._hang_up(connection)
            return
        answer: dict[str, Any]
        out: tuple[int, ...] = ()
        try:
            answer, out = self._do(connection, request)
        except (Refused, IllegalMessage) as error:
            answer = {
                "ok": False,
                "status": error.status.name,
                "why": getattr(error, "why", str(error)),
            }
        except TableFull as error:
            answer = {"ok": False, "status": "SERVICE_NOT_AVAILABLE", "why": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            why = f"malformed request: {type(error).__name__} {error}"
            answer = {"ok": False, "status": "UNKNOWN_ERROR", "why": why}
        self._answer(connection, {"id": request.get("id"), **answer}, out)
        if request.get("do") == "sync":
            mail.close_all(list(out))

    def _do(
        self, connection: socket.socket, request: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        match request["do"]:
            case "hello":
                return self._hello(connection, request)
            case "watch":
                return self._watch([int(slot) for slot in request["slots"]]), ()
            case "lease":
                return self._lease(connection, request["offset"]), ()
            case "clean":
                self.manual_asked.add(1)
                self.manual_asked.wake()
                return {"ok": True}, ()
            case "join" | "sync" | "leave" | "groups" | "group" | "reset" | "delete group":
                return self._serve_groups(connection, request)
            case "is open":
                return {"ok": True, "open": int(request["session"]) in self.sessions}, ()
            case "report":
                return {"ok": True, "report": self.world.report}, ()
            case _:
                return self._serve_topics(connection, request), ()

    def _serve_topics(self, connection: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
        """What changes a topic concerns the groups that read it."""
        answer = self.topics.serve(self._index_of(connection), request)
        if request["do"] in ("alter", "delete"):
            self.groups.topic_changed(str(request["topic"]), deleted=request["do"] == "delete")
        return answer

    def _index_of(self, connection: socket.socket) -> int | None:
        """The index of the connection's session; None before its hello."""
        number = self.by_connection.get(connection.fileno())
        return None if number is None else self.sessions[number].index

    def _watch(self, slots: list[int]) -> dict[str, Any]:
        """The client will sleep until one of these queues grows."""
        for slot in slots:
            if not 0 <= slot < self.table.queue_count:
                raise ValueError(f"there is no queue slot {slot}")
            self.control.watch(slot)
        return {"ok": True}

    def _lease(self, connection: socket.socket, offset: int | None) -> dict[str, Any]:
        """The client reads the commit-log file that holds `offset`, which clean spares for a while;
        null: none.
        """
        if offset is not None and not 0 <= int(offset) < 2**63:
            raise ValueError(f"there is no commit-log offset {offset}")
        number = self.by_connection[connection.fileno()]
        self.table.lease(self.sessions[number].index, offset)
        return {"ok": True}

    def _serve_groups(
        self, connection: socket.socket, request: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        number = self.by_connection[connection.fileno()]
        return self.groups.serve(number, self.sessions[number].index, request)

    def _expel(self, number: int) -> None:
        """Hangs up on a session."""
        for fd, owner in list(self.by_connection.items()):
            if owner == number:
                self._hang_up(self.connections[fd])

    # -- sessions

    def _hello(
        self, connection: socket.socket, request: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """A session: with a ring for who writes, without for who only reads."""
        if request["protocol"] != PROTOCOL:
            why = (
                f"the client speaks protocol {request['protocol']}, the store {PROTOCOL}: "
                "use one version"
            )
            raise Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        capacity = int(request["ring_size"])
        number = self.by_connection.get(connection.fileno())
        if number is None:
            number = self._new_session(connection, capacity)
        session = self.sessions[number]
        settings = self.settings
        answer = {
            "ok": True,
            "session": number,
            "index": session.index,
            "capacity": session.capacity,
            "store": self.world.folders.root.path,
            "store_host": Host.parse(f"{settings.store_host}:{settings.store_port}").packed().hex(),
            "max_message_size": settings.max_message_size,
            "level": self._level(),
            "sync_flush_timeout_ms": settings.sync_flush_timeout_ms,
            "append_crc": settings.enabled_append_prop_crc,
            "producer_spin_us": settings.producer_spin_us,
            "page_cache_busy_ms": settings.os_page_cache_busy_timeout_ms,
            "file_size_commit_log": settings.mapped_file_size_commit_log,
            "file_size_consume_queue": settings.mapped_file_size_consume_queue,
            "index_slots": settings.max_hash_slot_num,
            "index_entries": settings.max_index_num if settings.message_index_enable else 0,
            "transfer": {
                "memory_ratio": settings.access_message_in_memory_max_ratio,
                "bytes_in_memory": settings.max_transfer_bytes_on_message_in_memory,
                "count_in_memory": settings.max_transfer_count_on_message_in_memory,
                "bytes_on_disk": settings.max_transfer_bytes_on_message_in_disk,
                "count_on_disk": settings.max_transfer_count_on_message_in_disk,
                "batch": settings.max_msgs_num_batch,
            },
        }
        fds = (self.control_fd, self.table_fd)
        return answer, (*fds, session.ring, session.bell) if session.ring >= 0 else fds

    def _level(self) -> int:
        """What an answer means to a client, an AckLevel."""
        if self.settings.flush_disk_type == FlushDiskType.SYNC_FLUSH:
            return AckLevel.DURABLE
        return AckLevel.MEMORY if self.settings.transient_store_pool_enable else AckLevel.APPENDED

    def _new_session(self, connection: socket.socket, capacity: int) -> int:
        if self.state.load() >= StoreState.DRAINING:
            raise Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, "the store is stopping")
        used = {session.index for session in self.sessions.values()}
        index = next((i for i in range(self.settings.max_sessions) if i not in used), -1)
        if index < 0:
            why = f"the store has its {self.settings.max_sessions} sessions: raise max_sessions"
            raise Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        number = time.monotonic_ns()
        ring_fd = bell = -1
        if capacity:
            capacity = self._ring_capacity(capacity)
            ring_fd = ring.create(capacity, number)
            bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        session = Session(number, index, ring_fd, capacity, bell, connection.fileno())
        self.sessions[number] = session
        self.by_connection[connection.fileno()] = number
        fds = [connection.fileno()] + ([ring_fd, bell] if capacity else [])
        mail.post(
            self.inbox,
            {"do": "session", "session": number, "index": index, "capacity": capacity},
            fds,
        )
        return number

    def _ring_capacity(self, wanted: int) -> int:
        if wanted < 0:
            wanted = self.settings.ring_size
        wanted = (wanted + 4095) // 4096 * 4096
        limit = self.settings.ring_size_max
        if not ring.MIN_CAPACITY <= wanted <= limit:
            why = f"ring_size {wanted}: {ring.MIN_CAPACITY} to {limit} bytes (ring_size_max)"
            raise Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        return wanted

    def _read_mail(self) -> None:
        """The supervisor says that append has let go of a session: its index and grants are free
        again.
        """
        while True:
            try:
                message, fds = mail.receive(self.inbox)
            except BlockingIOError:
                return
            mail.close_all(fds)
            if message is None:
                return
            number = message["session"]
            session = self.sessions.pop(number, None)
            if session is None:
                continue
            self.table.revoke_all(session.index)
            if all(other.ring >= 0 for other in self.sessions.values()):
                self.control.watch_none()  # who reads has a session without a ring
                self.topics.watch_delayed()
            mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
            for fd, owner in list(self.by_connection.items()):
                if owner == number:
                    del self.by_connection[fd]
                    self._hang_up(self.connections[fd])
