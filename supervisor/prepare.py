"""Prepares a store before the first actor is forked: lock, recovery, shared memory, sockets.

`prepare` is the sequence: take the lock, wait for actors of an earlier run, look at the pool and
the files, save what was left in the pool, make shared memory, recover the files.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import time

from ..actors.actor import OWN_SESSIONS, Session, World
from ..actors.descriptors import HOW_TO_RAISE, Descriptors, raise_limit
from ..conf.logging import get_logger
from ..conf.settings import Settings
from ..shm import mail, pool, ring, segments
from ..shm._memory import Mapping
from ..shm.control import ACTORS, SIZE, Control
from ..shm.history import METRICS_SEGMENT, SEGMENT_SIZE
from ..shm.metrics import Metrics
from ..shm.ownership import STARTUP
from ..store.disk import files as disk
from ..store.disk.files import Folder
from ..store.disk.paths import ABORT, StoreFolders
from ..store.disk.sharing import UMASK, share_tree
from ..store.disk.stamps import stamp
from ..store.errors import StoreError
from ..store.pulse import Pulse, unheard
from ..store.recovery import shared_progress
from ..store.recovery.apply import apply
from ..store.recovery.layout import check_layout
from ..store.recovery.look import look
from ..store.recovery.plan import Report
from ..store.recovery.pool_recovery import look_in_pool, settle_pool
from ..store.recovery.unsupported import refuse_unsupported
from ..store.topics.table_layout import Plan
from ..store.topics.topic_table import TopicTable
from . import listener
from .claim import await_old_actors, take_lock
from .live_settings import check_admin_group
from .resuming import Kept

# More than a record takes beside its body: header, topic, properties.
_RECORD_ROOM = 65536


def prepare(
    settings: Settings, pulse: Pulse = unheard, kept: Kept | None = None
) -> tuple[World, int]:
    """Does everything up to the first fork. Returns the world and the descriptor of the held lock.
    `pulse` hears how far it is. `kept` is what the service manager passes: if that is all of a
    killed supervisor's store, the world is that store's (`resuming.py`), and `kept.state` says so.

    Raises AlreadyRunning, WrongSocket, StoreError, Corrupt, UnsupportedFeature, OSError. It then
    closes what it has opened, and removes its shared memory.
    """
    kept = Kept([]) if kept is None else kept
    descriptors = take_descriptors(kept.count)
    check_admin_group(settings.admin_group)
    with contextlib.ExitStack() as undo:
        refuse_unsupported(settings.store_path)
        folders = undo.enter_context(open_folders(settings.store_path))
        lock = take_lock(folders.root)
        undo.callback(os.close, lock)
        given = listener.given(kept.others, folders, settings.socket_group)
        if given is not None:
            undo.enter_context(given)
        store_id = segments.store_identity(settings.store_path)
        check_layout(folders, settings)
        pulse("waiting for processes of an earlier run", 0, 0)
        await_old_actors(store_id, folders.root.about(".").owner)
        why_not = kept.why_not(folders, store_id, given=given is not None)
        if not why_not:
            world = kept.world(given, descriptors)
            undo.pop_all()
            folders.close()
            world.take_role("supervisor")
            return world, lock
        if kept.names:
            get_logger().info("nothing to go on with: the store starts anew", why=why_not)
            kept.drop()
        control, table, report = recover(folders, settings, store_id, undo, pulse)
        if settings.transient_store_pool_enable:
            make_pool(settings, store_id)
        note_running(folders)
        world = World(
            settings=settings,
            store_name=os.path.basename(os.path.realpath(settings.store_path)),
            store_id=store_id,
            control_memory=control,
            table_memory=table,
            metrics_memory=make_metrics(store_id),
            folders=folders,
            allocate_semaphore=segments.create_semaphore(store_id, "allocate"),
            gates={name: segments.create_semaphore(store_id, f"gate-{name}") for name in ACTORS},
            listener=given or undo.enter_context(listener.make(folders, settings.socket_group)),
            append_mail=mail.pair(),
            registry_mail=mail.pair(),
            reput_mail=mail.pair(),
            flush_mail=mail.pair(),
            descriptors=descriptors,
            report=report.as_dict(),
        )
        for index, number in enumerate(OWN_SESSIONS.values(), settings.max_sessions):
            world.sessions[number] = own_session(world, number, index)
        undo.pop_all()
    now_ms = int(time.time() * 1000)
    world.control.own("started_ms").store(now_ms)
    world.control.own("generation").add(1)
    world.control.own("run_stamp").store(stamp(folders.root, ABORT))
    world.take_role("supervisor")  # from here on each word has one writer
    world.control.own_beat().store(time.monotonic_ns())
    return world, lock


def recover(
    folders: StoreFolders,
    settings: Settings,
    store_id: int,
    undo: contextlib.ExitStack,
    pulse: Pulse = unheard,
) -> tuple[Mapping, Mapping, Report]:
    """Recovers the store's files, in new shared memory: control block, topic table, and the report.
    `undo` gets the removal of shared memory. Raises Corrupt, StoreError, OSError. A store that is
    refused keeps what a killed run left: the next start must be refused for the same reason.
    """
    owner = folders.root.about(".").owner
    pool_rest = look_in_pool(store_id, settings.mapped_file_size_commit_log, owner)
    published = shared_progress.read(folders, store_id)  # before any file's rights change
    if pool_rest is None and published is None:
        undo.callback(segments.remove_all, store_id)
    if settings.socket_group:
        share_with_group(folders, settings.socket_group)
    plan = look(folders, settings, pool=pool_rest, published=published, pulse=pulse)
    kept: list[str] = []
    if plan.pool is not None:
        # The pool is removed with the other segments. Until its bytes are saved they stay, also if
        # the store is refused.
        kept = settle_pool(plan.pool, folders, pulse)
    undo.callback(segments.remove_all, store_id)
    segments.remove_all(store_id)
    control, table = make_memory(settings, store_id)
    memory = Control(control, STARTUP), TopicTable(table, STARTUP)
    return control, table, apply(plan, folders, settings, *memory, kept=kept, pulse=pulse)


def take_descriptors(kept: int = 0) -> Descriptors:
    """Raises the limit of open files as far as it goes. `kept` of those that are open now are of
    sessions, or are closed soon. Raises StoreError if the limit is too little.
    """
    found = raise_limit()
    found = Descriptors(found.limit, found.inherited - kept)
    if not found.enough:
        raise StoreError(
            f"the limit of open files is {found.limit}, a store needs at least {found.least}: "
            f"{HOW_TO_RAISE}"
        )
    return found


def open_folders(path: os.PathLike[str] | str) -> StoreFolders:
    """Opens or makes the store's folders. Raises StoreError that names the path and the reason, and
    OSError for a file or a link in the place of a folder within.
    """
    try:
        with Folder.open(path, create=True) as root:
            if "__init__.py" in root.names():
                raise StoreError(
                    f"{os.fspath(path)} is a Python package (__init__.py) and no store: give "
                    "another --store"
                )
        folders = StoreFolders(path, create=True)
        if not folders.root.is_writable():
            folders.close()
            raise PermissionError(errno.EACCES, "the folder is not writable", os.fspath(path))
        if folders.root.about(".").is_open_to_all:
            folders.close()
            raise StoreError(
                f"{os.fspath(path)} may be written by every user of this machine, who could put "
                f"files and links into the store: chmod o-w {os.fspath(path)}"
            )
    except OSError as error:
        where = error.filename or path
        if os.fspath(where).startswith(f"{os.fspath(path)}/"):
            raise
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        why = "it is a file, or lies in one" if is_file else error.strerror
        raise StoreError(
            f"cannot use {os.fspath(path)} as a store: {why} ({where}); "
            f"give a folder that user {os.geteuid()} may write to"
        ) from error
    return folders


def share_with_group(folders: StoreFolders, group: str) -> None:
    """Lets a group read all that is in the store's folder, and all that is made there from now on,
    whatever the umask. Raises StoreError, OSError.
    """
    os.umask(UMASK)
    share_tree(folders.root, grp.getgrnam(group).gr_gid)


def make_memory(settings: Settings, store_id: int) -> tuple[Mapping, Mapping]:
    """Makes a new control block and a new topic table, and returns their mappings in this order."""
    plan = Plan(settings.max_topics, settings.max_queues, settings.max_sessions + len(OWN_SESSIONS))
    control = segments.create_segment(store_id, "control", SIZE)
    table = segments.create_segment(store_id, "table", plan.size)
    Control(control, STARTUP).create(store_id)
    TopicTable.create(table, plan)
    return control, table


def make_metrics(store_id: int) -> Mapping:
    """Makes the metrics page and the history, and returns their mapping."""
    memory = segments.create_segment(store_id, METRICS_SEGMENT, SEGMENT_SIZE)
    Metrics(memory, STARTUP).create()
    return memory


def make_pool(settings: Settings, store_id: int) -> None:
    """Makes the transient pool's buffers. Raises StoreError when memory has no room for them."""
    import psutil  # a store without a pool does not need it

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


def own_session(world: World, number: int, index: int) -> Session:
    """A session of an actor that sends. Its ring has room for the longest record, and it has a
    grant for every topic.
    """
    settings = world.settings
    capacity = 2 * (settings.max_message_size + _RECORD_ROOM + ring.FRAME_HEADER)
    capacity = -(-capacity // 4096) * 4096
    world.table.grant_all(index)
    return Session(
        number,
        index,
        ring.create(capacity, number),
        capacity,
        os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        connection=-1,
        uid=os.getuid(),
    )
