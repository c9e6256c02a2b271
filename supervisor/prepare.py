"""What must be so before the first actor is forked: one supervisor, no leftovers, recovered files,
shared memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import select
import signal
import socket
import time

import posix_ipc
import psutil

from ..actors.actor import OWN_SESSIONS, SCHEDULE_SESSION, Session, World
from ..conf.settings import Settings
from ..shm import mail, pool, ring, segments
from ..shm._memory import Mapping
from ..shm.control import ACTORS, SIZE, Control, LayoutError
from ..shm.ownership import STARTUP
from ..store.disk import files as disk
from ..store.disk.paths import ABORT, LOCK, SOCKET, StoreFolders
from ..store.errors import StoreError
from ..store.recovery.pool_recovery import salvage
from ..store.recovery.startup import bring_back, check_layout
from ..store.topics.table_layout import Plan
from ..store.topics.topic_table import TopicTable

_OLD_ACTORS_S = 10.0
# What a record takes beside its body, generously: header, topic, properties.
_RECORD_ROOM = 65536


class AlreadyRunning(StoreError):
    """Another supervisor, or a RocketMQ broker, has the store."""


def take_lock(folders: StoreFolders) -> int:
    """Locks the first byte of `lock`, as RocketMQ does; the descriptor must stay open. Raises
    AlreadyRunning.
    """
    fd = folders.root.open_file(LOCK, write=True, create=True)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise AlreadyRunning(
                f"the store {folders.root.path} is in use by another process "
                f"(it holds {folders.root.path}/{LOCK}): stop that one, or give another --store"
            ) from error
        disk.write_at(fd, b"lock", 0)
        undo.pop_all()
    return fd


def share_with_group(folders: StoreFolders, group: str) -> None:
    """Lets the group read: what is made in the folders from now on belongs to it."""
    gid = grp.getgrnam(group).gr_gid
    for folder in (folders.root, folders.commit_log, folders.consume_queue, folders.index):
        folder.share(gid, 0o2750)


def open_folders(path: os.PathLike[str] | str) -> StoreFolders:
    """Opens or makes the store's folders. Raises StoreError that says which path and why."""
    try:
        folders = StoreFolders(path, create=True)
        if not folders.root.is_writable():
            folders.close()
            raise PermissionError(errno.EACCES, "the folder is not writable", os.fspath(path))
    except OSError as error:
        where = error.filename or path
        raise StoreError(
            f"cannot use {os.fspath(path)} as a store: {error.strerror} ({where}); "
            f"give a folder that user {os.geteuid()} may write to"
        ) from error
    return folders


def await_old_actors(store_id: int) -> list[int]:
    """Waits for actors that a killed supervisor left dying; kills what still lives: their pids."""
    try:
        fd = segments.open_segment(store_id, "control")
    except posix_ipc.ExistentialError:
        return []
    try:
        control = Control(Mapping(fd, 0, SIZE, writable=False))
        control.check()
    except (LayoutError, OSError, ValueError):
        return []
    finally:
        os.close(fd)
    waited = []
    for actor in range(len(ACTORS)):
        pid, _, started_ms, _ = control.process(actor)
        if pid and _is_same_process(pid, started_ms):
            waited.append(pid)
            _await_death(pid)
    return waited


def _is_same_process(pid: int, started_ms: int) -> bool:
    """Process numbers are used again: the time of birth tells."""
    try:
        born_s: float = psutil.Process(pid).create_time()
        return abs(born_s * 1000 - started_ms) < 3000
    except psutil.Error:
        return False


def _await_death(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([pidfd], [], [], 1.0)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if not select.select([pidfd], [], [], _OLD_ACTORS_S)[0]:
                raise StoreError(
                    f"process {pid} of an earlier run of this store does not die: look at it, "
                    "then start again"
                )
    finally:
        os.close(pidfd)


def listen(folders: StoreFolders, group: str) -> socket.socket:
    """The clients' socket, in the store's folder; a stale one is replaced (the lock says that
    nobody listens).
    """
    with contextlib.suppress(FileNotFoundError):
        folders.root.unlink(SOCKET)
    # A path through the folder's descriptor is short however long the store's own path is.
    path = f"/proc/self/fd/{folders.root.fd}/{SOCKET}"
    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        )
        listener.bind(path)
        gid = grp.getgrnam(group).gr_gid if group else -1
        folders.root.share(gid, 0o660, SOCKET)
        listener.listen(128)
        undo.pop_all()
    return listener


def make_memory(settings: Settings, store_id: int) -> tuple[Mapping, Mapping]:
    """Fresh control block and topic table."""
    plan = Plan(settings.max_topics, settings.max_queues, settings.max_sessions + OWN_SESSIONS)
    control = segments.create_segment(store_id, "control", SIZE)
    table = segments.create_segment(store_id, "table", plan.size)
    Control(control, STARTUP).create(store_id)
    TopicTable.create(table, plan)
    return control, table


def make_pool(settings: Settings, store_id: int) -> None:
    """The transient pool's buffers. Raises StoreError when shared memory has no room for them."""
    size, buffers = settings.mapped_file_size_commit_log, settings.transient_store_pool_size
    # Shared memory may be allowed to grow beyond what the machine has: then processes are killed.
    available = psutil.virtual_memory().available
    advice = (
        f"no memory for the pool's {buffers} buffers of {size} bytes: lower "
        "transient_store_pool_size or mapped_file_size_commit_log, or switch "
        "transient_store_pool_enable off"
    )
    if buffers * size > available:
        raise StoreError(f"{advice} (the machine has {available} bytes to give)")
    try:
        pool.create(store_id, buffers, size)
    except OSError as error:
        raise StoreError(f"{advice} ({error.strerror})") from error


def recover(
    folders: StoreFolders, settings: Settings, store_id: int, salvaged: int
) -> tuple[Mapping, Mapping, dict[str, object]]:
    """Start-up's work. `salvaged` bytes came from a dead store's pool."""
    made: list[Mapping] = []

    def fresh_memory() -> tuple[Control, TopicTable]:
        segments.remove_all(store_id)
        made[:] = make_memory(settings, store_id)
        return Control(made[0], STARTUP), TopicTable(made[1], STARTUP)

    report = bring_back(folders, settings, fresh_memory)
    if salvaged:
        report.notes.append(f"{salvaged} bytes were still in the pool and are in the log now")
    control, table = made
    return control, table, report.as_dict()


def own_session(world: World) -> Session:
    """The session through which delayed messages are delivered. Its ring takes the longest record,
    and it may write to every topic: what it writes was checked when it was sent.
    """
    settings = world.settings
    capacity = 2 * (settings.max_message_size + _RECORD_ROOM + ring.FRAME_HEADER)
    capacity = -(-capacity // 4096) * 4096
    world.table.grant_all(settings.max_sessions)
    return Session(
        SCHEDULE_SESSION,
        settings.max_sessions,
        ring.create(capacity, SCHEDULE_SESSION),
        capacity,
        os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        connection=-1,
    )


def prepare(settings: Settings) -> tuple[World, int]:
    """Everything up to the first fork: (world, descriptor of the held lock).

    Raises AlreadyRunning, StoreError, Corrupt, OSError; nothing is left behind then, and nothing
    open.
    """
    with contextlib.ExitStack() as undo:
        folders = undo.enter_context(open_folders(settings.store_path))
        lock = take_lock(folders)
        undo.callback(os.close, lock)
        store_id = segments.store_identity(settings.store_path)
        check_layout(folders)
        await_old_actors(store_id)
        # Until here what is in a dead store's memory may still be needed.
        salvaged = salvage(folders, settings.mapped_file_size_commit_log, store_id)
        undo.callback(segments.remove_all, store_id)
        if settings.socket_group:
            share_with_group(folders, settings.socket_group)
        control, table, report = recover(folders, settings, store_id, salvaged)
        if settings.transient_store_pool_enable:
            make_pool(settings, store_id)
        with folders.root.file(ABORT, write=True, create=True) as fd:
            disk.set_size(fd, 0)
            disk.write_at(fd, str(os.getpid()).encode(), 0)
            disk.sync_data(fd)
        folders.root.sync()
        world = World(
            settings=settings,
            store_name=os.path.basename(os.path.realpath(settings.store_path)),
            store_id=store_id,
            control_memory=control,
            table_memory=table,
            folders=folders,
            allocate_semaphore=segments.create_semaphore(store_id, "allocate"),
            gates={name: segments.create_semaphore(store_id, f"gate-{name}") for name in ACTORS},
            listener=undo.enter_context(listen(folders, settings.socket_group)),
            append_mail=mail.pair(),
            registry_mail=mail.pair(),
            report=report,
        )
        world.sessions[SCHEDULE_SESSION] = own_session(world)
        undo.pop_all()
    now_ms = int(time.time() * 1000)
    world.control.own("started_ms").store(now_ms)
    world.control.own("generation").add(1)
    world.take_role("supervisor")  # from here on every word has its one writer
    world.control.own_beat().store(time.monotonic_ns())
    return world, lock
