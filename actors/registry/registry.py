"""registry: the process that answers clients' requests on the store's Unix socket.

It is the only writer of topics, queues, grants, leases and notices in the topic table, and of
RocketMQ's files of topics and groups in `config/`. Every request (`shm/protocol/requests.py`) is
idempotent, because a client repeats its pending request when the registry is replaced. Connections
stay open then: the supervisor holds them.
"""

from __future__ import annotations

import os
import selectors
import socket

import msgspec

from ...conf.rocketmq_names import rocketmq_texts
from ...conf.schema import FlushDiskType, kinds
from ...shm import mail, parts
from ...shm.protocol.admin_requests import AskSettings
from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import (
    Assigned,
    BellMade,
    BoardFound,
    Changing,
    Done,
    Error,
    KeptFile,
    MetricsFound,
    ReadsMade,
    Report,
    SessionOpen,
    SettingsFound,
    TransferLimits,
    Welcome,
)
from ...shm.protocol.changes import Change
from ...shm.protocol.figure_requests import AskUsers
from ...shm.protocol.pops import Look, Pop, PopRequest, Settle
from ...shm.protocol.requests import (
    PROTOCOL,
    Alter,
    AnyRequest,
    AskBell,
    AskReport,
    BoardRequest,
    Clean,
    Delete,
    DeleteGroup,
    GroupRequest,
    Hello,
    IsOpen,
    KeptRequest,
    Lease,
    SessionRequest,
    TopicRequest,
    Watch,
    id_of,
)
from ...shm.segments import open_segment
from ...store.errors import IllegalMessage
from ...store.reading.get_message import Transfer
from ...store.record.ids import Host
from ...store.status import AckLevel, PutMessageStatus
from ...store.topics.table_changes import repair
from ...store.topics.topic_table import TableFull
from ..actor import TICK_S, Actor, Session
from . import changes
from .groups import Groups
from .makers import group_of
from .members import Member
from .quotas import users
from .refusals import Refused, error, illegal, unavailable
from .sessions import Sessions
from .sides import Side
from .system_topics import SystemTopics
from .turns import Turns

#: A union of types would be made anew at each look.
_POPPING = (Pop, Settle, Look)
#: Answers whose descriptors were opened for them.
_OPENED = (Assigned, KeptFile, BoardFound, MetricsFound, ReadsMade, Changing)


class Registry(Actor):
    """Accepts connections and answers requests until the store stops."""

    name = "registry"

    def setup(self) -> None:
        self.table = self.world.table
        self.manual_asked = self.control.own("manual_asked")
        filed = repair(self.table, self.beat)
        if filed:
            self.logger.warning("filed queues that a killed registry had not", queues=filed)
        self.topics = SystemTopics(self.world, self.logger, self.beat)
        self.requests = self.metrics.own("requests")
        self.requests_refused = self.metrics.own("requests_refused")
        self.leases = self.metrics.own("leases")
        self.members = self.metrics.own("members")
        self.control_fd = open_segment(self.world.store_id, "control")
        self.table_fd = open_segment(self.world.store_id, "table")
        self.selector = selectors.DefaultSelector()
        self.sessions = Sessions(
            self.world,
            self.logger,
            self.selector,
            self._member_left,
            self._stop_watching_for_nobody,
        )
        self.turns = Turns(self.sessions.uid_of)
        self.groups = Groups(
            self.world,
            self.logger,
            self.topics,
            expel=self.sessions.expel,
            notify=self._wake,
            wake=self.sessions.bells.notify,
            beat=self.beat,
        )
        self.topics_told = self.table.topic_count
        for fd in (self.world.listener, self.sessions.inbox, self.signal_fd):
            self.selector.register(fd, selectors.EVENT_READ)
        self.sessions.adopt_all()

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            ready = []
            for key, events in self.selector.select(self._patience()):
                if key.fileobj is self.world.listener:
                    self.sessions.accept()
                elif key.fileobj is self.sessions.inbox:
                    self.sessions.read_mail()
                elif key.fileobj == self.signal_fd:
                    os.read(self.signal_fd, 4096)
                elif isinstance(key.fileobj, socket.socket):
                    if events & selectors.EVENT_WRITE:
                        self.sessions.send_rest(key.fileobj)
                    else:
                        ready.append(key.fileobj)
            for connection in self.turns.order(ready):
                self.beat()  # one turn may answer many requests
                self._serve(connection)
            self.sessions.tick()
            self.sessions.boards.reads.tick()
            self.members.store(len(self.groups.members))
            if self.topics.file.unsaved_since and self.topics.file.due_in() <= 0.0:
                self.topics.save()
            self.groups.tick()

    def teardown(self) -> None:
        # `setup` may have failed before it set these attributes.
        topics: SystemTopics | None = getattr(self, "topics", None)
        if topics is not None and topics.file.unsaved_since:
            topics.file.save()
        groups: Groups | None = getattr(self, "groups", None)
        if groups is not None:
            groups.stop()

    def _patience(self) -> float:
        file = self.topics.file
        due = max(0.0, file.due_in()) if file.unsaved_since else TICK_S
        return min(due, self.groups.patience(), self.sessions.patience())

    def _member_left(self, number: int) -> None:
        self.groups.leave(number)

    def _wake(self, member: Member | Side) -> None:
        """Tells a member, or the broker of members, that there is news. A broker may have ended."""
        if member.index >= 0:
            self.sessions.bells.notify(member.session, member.index)

    def _stop_watching_for_nobody(self) -> None:
        """Stops watching queues once no client can sleep on one, except those for which processes
        of the store wait. Reput then spares the system calls that would wake sleepers.
        """
        if not self.sessions.has_readers():
            self.control.watch_none()
            self.topics.watch_own()

    # -- requests

    def _serve(self, connection: socket.socket) -> None:
        """Reads one request and answers it. A packet that is no request gets an error."""
        if connection.fileno() < 0:
            return  # closed earlier in this turn
        try:
            if self.sessions.brings_descriptors(connection):
                self._refuse_packet(connection, "descriptors are not taken from clients")
                return
            request, fds = mail.receive(connection, self.sessions.reader(connection))
        except (BlockingIOError, parts.Incomplete):
            return
        except parts.NoRoom:
            why = "too many long requests at once: try again"
            self.sessions.answer_unavailable(connection, why)
            return
        except OSError:  # the client closed its socket with an answer unread
            self.sessions.hang_up(connection)
            return
        except mail.Misfit as misfit:
            refusal = error(PutMessageStatus.MESSAGE_ILLEGAL, f"malformed request: {misfit.why}")
            self._answer(connection, id_of(misfit.data), refusal)
            return
        except mail.NotAMessage as what:
            self._refuse_packet(connection, str(what))
            return
        mail.close_all(fds)
        if request is None:
            self.sessions.hang_up(connection)
            return
        answer, out = self._do_or_refuse(connection, request)
        self.requests.add(1)
        self.requests_refused.add(int(isinstance(answer, Error)))
        self._answer(connection, request.id, answer, out)
        if isinstance(answer, _OPENED):
            mail.close_all(list(out))

    def _refuse_packet(self, connection: socket.socket, why: str) -> None:
        """Hangs up on a client whose packet makes no sense, and says why."""
        self.logger.warning("a client's packet makes no sense: hanging up", error=why)
        self._answer(connection, 0, error(PutMessageStatus.MESSAGE_ILLEGAL, why))
        self.sessions.hang_up(connection)

    def _answer(
        self, connection: socket.socket, number: int, answer: Answer, fds: tuple[int, ...] = ()
    ) -> None:
        """Answers the request `number`."""
        self.sessions.answer(connection, msgspec.structs.replace(answer, id=number), fds)

    def _do_or_refuse(
        self, connection: socket.socket, request: AnyRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        try:
            return self._do(connection, request)
        except Refused as refused:
            return error(refused.status, str(refused)), ()
        except IllegalMessage as refused:
            return error(refused.status, refused.why), ()
        except TableFull as full:
            return error(PutMessageStatus.SERVICE_NOT_AVAILABLE, str(full)), ()
        except OSError as failed:
            self.logger.error("a request failed", request=type(request).__name__, error=str(failed))
            why = f"the store failed: {failed.strerror or failed}; see its log, then try again"
            return error(PutMessageStatus.SERVICE_NOT_AVAILABLE, why), ()
        except Exception as bug:
            # Not the end of this process: the client would ask its successor the same.
            self.logger.critical(
                "a request failed because of a defect of the store",
                request=type(request).__name__, error=repr(bug), exc_info=True,
            )  # fmt: skip
            why = f"the store failed because of a defect ({type(bug).__name__}): see its log"
            return error(PutMessageStatus.UNKNOWN_ERROR, why), ()

    def _do(self, connection: socket.socket, request: AnyRequest) -> tuple[Answer, tuple[int, ...]]:
        """The answer to a request, with descriptors to send along. Raises Refused, IllegalMessage,
        TableFull. Counts topics and groups that are made for the client's user.
        """
        makers = self.topics.makers
        makers.peer = self.sessions.peer_of(connection)
        group = "" if makers.peer.owner else group_of(request)
        if not group or group in self.groups.configs or makers.knows_group(group):
            found = self._serve_one(connection, request)
        else:
            makers.check_group(group)
            found = self._serve_one(connection, request)
            makers.made_group(group)
        if isinstance(request, DeleteGroup):
            makers.lost_group(request.group)
        return found

    def _serve_one(
        self, connection: socket.socket, request: AnyRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        if isinstance(request, _POPPING):  # first, because thousands may come in a second
            session = self.sessions.of(connection)
            return self.groups.pops.serve(session.number, session.index, request), ()
        self.sessions.check_access(connection, request, self._group_of(connection))
        if isinstance(request, TopicRequest):
            return self._serve_topics(self.sessions.find(connection), request), ()
        if isinstance(request, GroupRequest | KeptRequest | PopRequest):
            return self._serve_groups(self.sessions.of(connection), request)
        if isinstance(request, BoardRequest):
            return self.sessions.boards.serve(self.sessions.of(connection), request)
        if isinstance(request, Hello):
            return self._hello(connection, request)
        return self._serve_session(connection, request)

    def _serve_session(
        self, connection: socket.socket, request: SessionRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        """Answers a request of a session for itself, or about the whole store."""
        match request:
            case Watch():
                return self._watch(request), ()
            case AskBell():
                return BellMade(), self.sessions.bells.ask(self.sessions.of(connection))
            case Lease():
                self.table.lease(self.sessions.of(connection).index, request.offset)
                self.leases.add(int(request.offset is not None))
                return Done(), ()
            case Clean():
                self.manual_asked.add(1)
                self.manual_asked.wake()
                return Done(), ()
            case AskUsers():
                return users(self.sessions.all, self.topics.makers), ()
            case AskReport():
                return Report(report=self.world.report), ()
            case AskSettings():
                return SettingsFound(settings=rocketmq_texts(kinds(), self.settings)), ()
            case Change():
                session = self.sessions.of(connection)
                return changes.ask(self.sessions.inbox, session.number, request)
            case IsOpen():
                return SessionOpen(open=request.session in self.sessions), ()

    def _serve_groups(
        self, session: Session, request: GroupRequest | KeptRequest | PopRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        if isinstance(request, PopRequest):
            return self.groups.pops.serve(session.number, session.index, request), ()
        if isinstance(request, GroupRequest):
            return self.groups.serve(session.number, session.index, request)
        return self.groups.kept.serve(session.number, session.index, request)

    def _group_of(self, connection: socket.socket) -> str:
        """The consumer group of the connection's session, "" if there is none."""
        session = self.sessions.find(connection)
        member = None if session is None else self.groups.members.get(session.number)
        return "" if member is None else member.about.group

    def _serve_topics(self, session: Session | None, request: TopicRequest) -> Answer:
        """Answers a request about topics. A change or deletion divides the queues of the groups
        that read the topic anew. Bells ring for it, and for a new topic.
        """
        try:
            answer = self.topics.serve(None if session is None else session.index, request)
        finally:  # a deletion that fails may have retired the queues
            if isinstance(request, Alter | Delete) or self.topics_told != self.table.topic_count:
                self.topics_told = self.table.topic_count
                self.sessions.bells.ring_all()
        if isinstance(request, Alter | Delete):
            self.groups.topic_changed(request.topic, deleted=isinstance(request, Delete))
        return answer

    def _watch(self, request: Watch) -> Done:
        for slot in request.slots:
            if slot >= self.table.queue_count:
                raise illegal(f"there is no queue slot {slot}")
            self.control.watch(slot)
        return Done()

    def _hello(self, connection: socket.socket, request: Hello) -> tuple[Welcome, tuple[int, ...]]:
        """Begins a session: with a ring for a client that sends, without one for a reader. Raises
        Refused.
        """
        if request.protocol != PROTOCOL:
            raise unavailable(
                f"the client speaks protocol {request.protocol}, the store {PROTOCOL}: "
                "use one version"
            )
        session = self.sessions.begin(connection, request.ring_size)
        fds = (self.control_fd, self.table_fd)
        if session.ring >= 0:
            return self._welcome(session), (*fds, session.ring, session.bell)
        return self._welcome(session), fds

    def _welcome(self, session: Session) -> Welcome:
        settings = self.settings
        return Welcome(
            session=session.number,
            index=session.index,
            capacity=session.capacity,
            store=self.world.folders.root.path,
            store_host=Host.of(settings.store_host, settings.store_port).packed().hex(),
            max_message_size=settings.max_message_size,
            level=self._level(),
            sync_flush_timeout_ms=settings.sync_flush_timeout_ms,
            append_crc=settings.enabled_append_prop_crc,
            light=settings.sends_to_light_queues,
            producer_spin_us=settings.producer_spin_us,
            page_cache_busy_ms=settings.os_page_cache_busy_timeout_ms,
            heartbeat_timeout_ms=settings.heartbeat_timeout_ms,
            file_size_commit_log=settings.mapped_file_size_commit_log,
            file_size_consume_queue=settings.mapped_file_size_consume_queue,
            delay_levels=len(settings.message_delay_level),
            index_slots=settings.max_hash_slot_num,
            index_entries=settings.max_index_num if settings.message_index_enable else 0,
            transfer=TransferLimits(**msgspec.structs.asdict(Transfer.of(settings))),
        )

    def _level(self) -> AckLevel:
        """What an acknowledged message survives with these settings."""
        if self.settings.flush_disk_type == FlushDiskType.SYNC_FLUSH:
            return AckLevel.DURABLE
        return AckLevel.MEMORY if self.settings.transient_store_pool_enable else AckLevel.APPENDED
