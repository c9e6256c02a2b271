"""`Broker`: RocketMQ's remoting protocol on a port, for the store of this machine."""

from __future__ import annotations

import faulthandler
import resource
import signal
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any, Final

from ..conf.broker_settings import TlsMode
from ..conf.logging import get_logger, tell_repeats
from ..shm.bell import Reason
from ..store.errors import StoreError
from ..store.record.ids import Host
from .access.gate import Gate
from .admin.processors import Admin
from .groups.consumers import Producers
from .groups.holds import Holds
from .groups.membership import Membership
from .groups.pop_holds import PopHolds
from .groups.queue_locks import QueueLocks
from .groups.relay import Relay
from .groups.transaction_checks import TransactionChecks
from .link.pops import Pops
from .link.progress import Progress
from .link.reading import Reading
from .link.sending import Sending
from .link.status_board import StatusBoard
from .link.store import StoreLink
from .link.topics import Topics
from .loop._connection import Limits
from .loop._loop import Loop
from .loop.choke import Choke, Room
from .loop.reasons import Reasons
from .loop.tasks import start
from .loop.tls import TlsLayer, server_context
from .processors._fast_path import FastRequests
from .processors.calls import Call, Handler, Handlers, refusal
from .processors.counts import UNKNOWN, Counts
from .processors.every import every_processor
from .processors.parts import Parts
from .processors.pull import PullProcessor
from .processors.send import SendProcessor
from .routes.own_routes import RouteProcessor
from .routes.registering import Registrar
from .statistics.statistics import Statistics
from .status import Status
from .wire.address import Address
from .wire.codes import ResponseCode
from .wire.command import ANSWER, BadFrame, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..conf.broker_settings import BrokerSettings
    from .loop._connection import Connection

#: As plain numbers: flags cost a microsecond, in each turn of the loop.
_ANSWERS, _ARRIVALS, _FLUSHED, _NOTICES = map(
    int, (Reason.ANSWERS, Reason.ARRIVALS, Reason.FLUSHED, Reason.NOTICES)
)
#: What is not an event of its own is looked at this often (s).
_TICK_S: Final = 1.0
#: So often it looks whether a message has waited too long for its sync (s).
_SYNC_S: Final = 0.1
#: A broker that ends waits so long for the store's last answers, and looks for them this often (s).
_LAST_ANSWERS_S: Final = 2.0
_POLL_S: Final = 0.001


class Broker:
    """Serves the store in `folder` at an address. Raises StoreError for a certificate or accounts
    that cannot be used.
    """

    def __init__(self, folder: str, settings: BrokerSettings) -> None:
        self.logger: Any = get_logger()
        self._settings = settings
        secure = _secure(settings)
        self._limits = limits = Limits(
            frame=settings.frame_max_length,
            unsent=settings.max_unsent_size,
            held=settings.max_unfinished_size,
            secure=None if secure is None else lambda: TlsLayer(secure),
            plain=settings.tls_server_mode != TlsMode.ENFORCING,
        )
        self.loop = loop = Loop(self, limits)
        self.reasons = Reasons(self.logger)
        self._choke = choke = Choke(loop)
        #: For what is decoded and waits, mostly for the store's registry.
        self._room = Room(choke, "requests", settings.max_unfinished_size)
        link = StoreLink(loop, folder, -1, self.logger)
        self._relay = Relay(loop)
        locks = QueueLocks(settings.rebalance_lock_max_live_time_ms / 1000)
        topics, progress = Topics(link), Progress(link, self.logger)
        membership = Membership(link, topics, locks, self._relay, progress)
        reading, holds = Reading(link, self.logger), Holds(loop, link)
        self._parts = Parts(
            settings=settings,
            loop=loop,
            link=link,
            sending=Sending(link, lambda full: choke.tell("ring", full=full)),
            topics=topics,
            reading=reading,
            progress=progress,
            consumers=membership.consumers,
            producers=Producers(),
            locks=locks,
            holds=holds,
            pops=Pops(link, reading),
            pop_holds=PopHolds(loop, holds),
            counts=Counts(),
            statistics=Statistics(settings.broker_cluster_name),
            topic_made=self._topic_made,
            logger=self.logger,
        )
        parts = self._parts
        self._checks = TransactionChecks(
            loop, link, reading=parts.reading, holds=parts.holds, producers=parts.producers,
            relay=self._relay, name=settings.broker_name, logger=self.logger,
        )  # fmt: skip
        self._send, self._pull = SendProcessor(self._parts), PullProcessor(self._parts)
        #: What serves most requests.
        self.fast = FastRequests(self._send.fast, self._pull.fast)
        self._gate = gate = Gate.of(settings, loop, self.logger)
        if gate is not None:
            gate.changed.append(self._pull.fast.forget)  # pulls that wait are asked again
        limits.fast = self.fast if gate is None else gate.before(self.fast)
        self._handlers: Handlers = {}
        self._telling = False
        self._registrar: Registrar | None = None
        self._routes: RouteProcessor | None = None
        self._board: StatusBoard | None = None
        self._admin: Admin | None = None
        self._ends = False

    # -- life

    def listen(
        self,
        address: Address | socket.socket | None,
        patience_s: float,
        check: Callable[[Address], None],
    ) -> Address:
        """Meets the store and listens. Returns the address, with the port that was free if it was
        0. The arguments and errors are those of `serve`.
        """
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._parts.link.open(patience_s)
        if address is None:
            address = Address.parse(str(self._parts.reading.host))
        if isinstance(address, Address):
            check(address)
            listener = address.listen()
        else:
            listener = address
        bound = Address.of(listener)
        advertised = str(self._parts.reading.host)
        parts = self._parts
        self._routes = RouteProcessor(parts, advertised)
        self._admin = Admin(parts, self._relay, advertised)
        self._registrar = Registrar(self._settings, advertised, self.logger)
        processors = every_processor(
            parts, self._relay, self._gate, advertised, send=self._send, pull=self._pull
        )
        for processor in (*processors, self._admin, self._routes):
            self._handlers |= processor.handlers
        status = Status(
            parts, limits=self._limits, reasons=self.reasons, registrar=self._registrar,
            listens=str(bound), told=advertised,
        )  # fmt: skip
        self._board = StatusBoard(parts.link, status.document, self.logger)
        self._board.tick()
        self.loop.listen(listener)
        self.loop.call_later(_TICK_S, self._tick)
        self._topic_made()
        if advertised != str(bound):
            self.logger.warning(
                "clients are told another address than the broker listens at",
                told=advertised, listens=str(bound), settings="brokerIP1, listenPort of the store",
            )  # fmt: skip
        return bound

    def heed_signals(self) -> None:
        """From now on SIGTERM and SIGINT end `run`, also one that has not begun."""
        faulthandler.register(signal.SIGUSR1)  # a broker that hangs can be asked where
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.loop.stop())

    def close(self) -> None:
        """Leaves the name servers, answers what the store still answers soon, and ends all
        connections and the session with the store.
        """
        if self._ends:
            return
        self._ends = True
        self._parts.link.end_requests()  # what they bring goes to the loop
        if self._registrar is not None:
            self._registrar.end()
        deadline = time.monotonic() + _LAST_ANSWERS_S
        while self._parts.sending.awaits_answers and time.monotonic() < deadline:
            self._parts.sending.settle()
            time.sleep(_POLL_S)
        self._parts.link.close()
        if self._gate is not None:
            self._gate.end()
        self.loop.close()

    def _tick(self) -> None:
        parts = self._parts
        parts.link.check()
        if not parts.link.is_up:
            start(parts.link.reconnect())
        parts.sending.check()
        parts.progress.tick(parts.consumers.has_members)
        for connection in self.loop.idle(self._settings.server_channel_max_idle_time_s):
            connection.close("nothing came or went for too long")
        for connection in (*parts.consumers.expired(), *parts.producers.expired()):
            connection.close("no heart-beat came for too long")
        self._checks.tick()
        self.reasons.tell()
        tell_repeats()
        if self._admin is not None and parts.link.is_up:
            self._admin.tick()
        if self._board is not None:
            self._board.tick()
        if self._gate is not None:
            self._gate.tick()
        self.loop.call_later(_TICK_S, self._tick)

    def turned(self) -> None:
        """Looks for what the store has brought, at the end of a turn of the loop."""
        if self._parts.link.is_up:
            self._parts.link.bell.disarm()
            self._look()

    def _look(self) -> None:
        parts = self._parts
        if parts.sending.awaits_answers or parts.sending.awaits_syncs:
            parts.sending.settle()
        if parts.holds.count:
            parts.holds.look()
        parts.progress.look()

    def rest(self) -> float:
        """Has the store ring for what is awaited, and looks once more. The loop may sleep so long
        (s).
        """
        parts = self._parts
        if not parts.link.is_up:
            return _TICK_S
        reasons = _NOTICES
        if parts.sending.awaits_answers:
            reasons |= _ANSWERS
        if parts.sending.awaits_syncs:
            reasons |= _FLUSHED
        if parts.holds.count:
            reasons |= _ARRIVALS
        parts.link.bell.arm(reasons)
        self._look()
        return _SYNC_S if parts.sending.awaits_syncs else _TICK_S

    # -- what others tell

    def _topic_made(self) -> None:
        """Tells name servers of the topics, once for all that are made in a turn."""
        if not self._telling:
            self._telling = True
            self.loop.call_soon(self._tell_topics)

    def _tell_topics(self) -> None:
        self._telling = False
        if self._routes is not None and self._registrar is not None and self._parts.link.is_up:
            self._registrar.tell(dict(self._routes.all_queues()))

    # -- connections

    def name(self, address: Any) -> tuple[str, bytes]:
        """A peer's address as text, and as records have it."""
        host = Host.of(address[0].partition("%")[0], address[1])
        return str(host), host.packed()

    def began(self, connection: Connection) -> None:
        """A peer has connected."""
        if len(self.loop.connections) > self._settings.max_connections:
            connection.close(f"more than {self._settings.max_connections} connections")
        else:
            self._choke.began(connection)

    def cannot_accept(self, error: OSError) -> None:
        """A connection could not be accepted."""
        self.logger.error("cannot accept a connection", error=str(error))

    def ended(self, connection: Connection, why: str) -> None:
        """A connection has ended, and with it what it stood for."""
        if why and not self._ends:
            self.reasons.add(why, connection.peer)
        self._parts.holds.disconnected(connection)
        self._parts.progress.shared.disconnected(connection)
        self._parts.consumers.disconnected(connection)
        self._parts.producers.disconnected(connection)
        self._relay.disconnected(connection)

    def frame(self, connection: Connection, frame: bytes) -> None:
        """A request or an answer has come."""
        try:
            command = decode(frame)
        except BadFrame as error:
            connection.close(f"no frame of the protocol: {error}")
            return
        connection.state = command.serialization
        if command.flag & ANSWER:
            self._relay.answered(connection, command)
            return
        handler = self._handlers.get(command.code)
        if handler is not None:
            self._parts.counts.request(command.code)
            start(self._serve(Call(command, connection, gate=self._gate), handler))
            return
        self._parts.counts.refuse(UNKNOWN, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        if command.wants_answer:
            why = f" request type {command.code} not supported"
            answer = command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=why)
            connection.send(answer.encode())

    async def _serve(self, call: Call, handler: Handler) -> None:
        request, size = call.request, len(call.request.body)
        self._room.take(size)
        try:
            call.check()
            answer = await handler(call)
        except Exception as error:
            found = refusal(call, error)
            if found is None:
                self.logger.critical(
                    "a request failed because of a defect",
                    code=request.code, error=repr(error), exc_info=True,
                )  # fmt: skip
                why = f"the broker failed because of a defect ({type(error).__name__}): see its log"
                found = request.answer(ResponseCode.SYSTEM_ERROR, remark=why)
            self._parts.counts.refuse(request.code, found.code)
            answer = found
        finally:
            self._room.take(-size)
        if request.wants_answer:
            try:
                frame = answer.encode()
            except (ValueError, struct.error) as error:  # what a client has answered may not fit
                why = f"the answer does not fit into a frame: {error}"
                frame = request.answer(ResponseCode.SYSTEM_ERROR, remark=why).encode()
            call.connection.send(frame)


def _secure(settings: BrokerSettings) -> ssl.SSLContext | None:
    """The context of TLS, None without it. Raises StoreError."""
    if settings.tls_server_mode == TlsMode.DISABLED or not settings.tls_server_cert_path:
        return None
    try:
        return server_context(
            settings.tls_server_cert_path,
            settings.tls_server_key_path,
            settings.tls_server_trust_cert_path,
        )
    except OSError as error:
        why = f"cannot use the certificate {settings.tls_server_cert_path}: {error}"
        raise StoreError(why) from error


def serve(
    folder: str,
    settings: BrokerSettings,
    address: Address | socket.socket | None,
    patience_s: float,
    check: Callable[[Address], None],
    *,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves the store in `folder` in this process until SIGTERM or SIGINT. None is the address
    that the store's records name; a socket listens already. The store may take `patience_s` to
    start. `check` is called with an address before anybody can connect, and `ready` when requests
    are answered. Raises StoreError, and what `check` raises.
    """
    broker = Broker(folder, settings)
    try:
        bound = broker.listen(address, patience_s, check)
        broker.heed_signals()  # before anybody is told that it runs
        broker.logger.info("broker running", address=str(bound), name=settings.broker_name)
        ready()
        broker.loop.run()
        broker.logger.info("broker stopped")
    finally:
        broker.close()
