"""Prepares a store before the first actor is forked: lock, recovery, shared memory, sockets.

`prepare` is the sequence: take the lock, wait for actors of an earlier run, put what was left in
the pool into the log, recover the files, make shared memory.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import socket
import time

import psutil

from ..actors.actor import OWN_SESSIONS, SCHEDULE_SESSION, Session, World
from ..conf.settings import Settings
from ..shm import mail, pool, ring, segments
from ..shm._memory import Mapping
from ..shm.control import ACTORS, SIZE, Control
from ..shm.ownership import STARTUP
from ..store.disk import files as disk
from ..store.disk.paths import ABORT, SOCKET, StoreFolders
from ..store.errors import StoreError
from ..store.recovery.apply import apply
from ..store.recovery.layout_version import check_layout
from ..store.recovery.look import look
from ..store.recovery.pool_recovery import look_in_pool, put_into_log
from ..store.topics.table_layout import Plan
from ..store.topics.topic_table import TopicTable
from .claim import await_old_actors, take_lock

# More than a record takes beside its body: header, topic, properties.
_RECORD_ROOM = 65536


def prepare(settings: Settings) -> tuple[World, int]:
    """Does everything up to the first fork. Returns the world and the descriptor of the held lock.

    Raises AlreadyRunning, StoreError, Corrupt, OSError. It then closes what it has opened, and
    removes its shared memory.
    """
    with contextlib.ExitStack() as undo:
        folders = undo.enter_context(open_folders(settings.store_path))
        lock = take_lock(folders)
        undo.callback(os.close, lock)
        store_id = segments.store_identity(settings.store_path)
        check_layout(folders)
        await_old_actors(store_id)
        # The pool of a crashed store is removed with its other segments, so it is saved first.
        from_pool = recover_pool(folders, settings, store_id)
        undo.callback(segments.remove_all, store_id)
        if settings.socket_group:
            share_with_group(folders, settings.socket_group)
        plan = look(folders, settings, from_pool=from_pool)
        segments.remove_all(store_id)
        control, table = make_memory(settings, store_id)
        report = apply(
            plan, folders, settings, Control(control, STARTUP), TopicTable(table, STARTUP)
        )
        if settings.transient_store_pool_enable:
            make_pool(settings, store_id)
        note_running(folders)
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
            report=report.as_dict(),
        )
        world.sessions[SCHEDULE_SESSION] = own_session(world)
        undo.pop_all()
    now_ms = int(time.time() * 1000)
    world.control.own("started_ms").store(now_ms)
    world.control.own("generation").add(1)
    world.take_role("supervisor")  # from here on each word has one writer
    world.control.own_beat().store(time.monotonic_ns())
    return world, lock


def open_folders(path: os.PathLike[str] | str) -> StoreFolders:
    """Opens or makes the store's folders. Raises StoreError that names the path and the reason."""
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


def recover_pool(folders: StoreFolders, settings: Settings, store_id: int) -> int:
    """Writes to the log what a crashed store left in its pool. Returns the number of bytes."""
    rest = look_in_pool(store_id, settings.mapped_file_size_commit_log)
    if rest is None:
        return 0
    put_into_log(rest, folders)
    return rest.size


def share_with_group(folders: StoreFolders, group: str) -> None:
    """Lets a group read the store's folders (mode 02750). Files made from now on belong to the
    group. Raises OSError.
    """
    gid = grp.getgrnam(group).gr_gid
    for folder in (folders.root, folders.commit_log, folders.consume_queue, folders.index):
        folder.share(gid, 0o2750)


def make_memory(settings: Settings, store_id: int) -> tuple[Mapping, Mapping]:
    """Makes a new control block and a new topic table, and returns their mappings in this order."""
    plan = Plan(settings.max_topics, settings.max_queues, settings.max_sessions + OWN_SESSIONS)
    control = segments.create_segment(store_id, "control", SIZE)
    table = segments.create_segment(store_id, "table", plan.size)
    Control(control, STARTUP).create(store_id)
    TopicTable.create(table, plan)
    return control, table


def make_pool(settings: Settings, store_id: int) -> None:
    """Makes the transient pool's buffers. Raises StoreError when memory has no room for them."""
    size, buffers = settings.mapped_file_size_commit_log, settings.transient_store_pool_size
    # The limit of shared memory may be above the machine's memory. The kernel would then kill
    # processes when the buffers fill.
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


def note_running(folders: StoreFolders) -> None:
    """Makes RocketMQ's file `abort`, durably. A clean stop removes it, so a start that finds it
    follows a crash.
    """
    with folders.root.file(ABORT, write=True, create=True) as fd:
        disk.set_size(fd, 0)
        disk.write_at(fd, str(os.getpid()).encode(), 0)
        disk.sync_data(fd)
    folders.root.sync()


def listen(folders: StoreFolders, group: str) -> socket.socket:
    """Makes the socket for clients in the store's folder. An old one is replaced: this process has
    the lock, so no other process listens on it.
    """
    with contextlib.suppress(FileNotFoundError):
        folders.root.unlink(SOCKET)
    # The address of a Unix socket holds 107 bytes. A path through the folder's descriptor always
    # fits.
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


def own_session(world: World) -> Session:
    """The session of the schedule process. Its ring has room for the longest record, and it has a
    grant for every topic.
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
