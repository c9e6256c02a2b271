"""The store's folder: its file system, space, inodes, owner and rights."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from ...store.disk.paths import COMMIT_LOG, CONFIG, CONSUME_QUEUE, INDEX, OURS
from ...store.retention.rules import used_percent
from .findings import ok, problem, warning
from .mounts import mount_of
from .stores import existing, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...conf.settings import Settings
    from ...store.disk.files import Folder
    from .findings import Finding
    from .mounts import Mount

_GOOD: Final = frozenset(("ext4", "xfs"))
_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "ocfs2", "gfs2"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.ceph", "9p", "virtiofs", "vboxsf"),
    )
)
_REASONS: Final = {
    "tmpfs": ("lies in memory: a reboot loses the store", "use a disk"),
    "ramfs": ("lies in memory: a reboot loses the store", "use a disk"),
    "overlay": ("is a container's own layer, lost with the container", "mount a volume there"),
    "btrfs": ("copies on write: space that was taken may still run out", "chattr +C, or use ext4"),
    "zfs": ("copies on write: space that was taken may still run out", "use ext4 or xfs"),
    "bcachefs": ("copies on write: space that was taken may still run out", "use ext4 or xfs"),
}
#: Mount options that matter, why, and what to do.
_OPTIONS: Final = {
    "sync": ("each write waits for the disk", "mount it without sync"),
    "nobarrier": ("a power cut may lose what a sync has promised", "mount it with barriers"),
    "barrier=0": ("a power cut may lose what a sync has promised", "mount it with barriers"),
    "data=journal": ("all data is written twice", "mount it with data=ordered"),
    "nolock": ("locks do not work", "mount it without nolock"),
}
#: Fewer free inodes than this are soon used up by queues: each file of a queue takes one.
_FEW_INODES: Final = 10_000
_MOST_ENTRIES: Final = 10_000


def check(
    settings: Settings, path: str, root: Folder | None, *, is_mine: bool
) -> Iterator[Finding]:
    """The place of the store in folder `path`, which `root` is if it exists. `is_mine` says that
    the store runs there.
    """
    there = existing(path)
    mount = mount_of(there)
    yield _file_system(mount)
    yield from _mount_options(mount)
    yield _space(settings, there, is_mine=is_mine)
    yield _inodes(there)
    if root is None:
        yield _can_be_made(path)
    else:
        yield from _rights(root)


def _file_system(mount: Mount) -> Finding:
    what = f"{mount.kind}, mounted at {mount.point}"
    if mount.kind in _NETWORK:
        why = f"{what}: files over a network have other rules for maps, locks and syncs"
        return problem("file system", why, "use a disk of this machine")
    if mount.kind in _GOOD:
        return ok("file system", what)
    why, advice = _REASONS.get(mount.kind, ("was never tried", "use ext4 or xfs"))
    return warning("file system", f"{what}: it {why}", advice)


def _mount_options(mount: Mount) -> Iterator[Finding]:
    if "ro" in mount.options:
        yield problem("mount options", f"{mount.point} is mounted read-only", "mount it rw")
    for option, (why, advice) in _OPTIONS.items():
        if option in mount.options:
            yield warning("mount options", f"{mount.point} has {option}: {why}", advice)


def _space(settings: Settings, there: os.PathLike[str], *, is_mine: bool) -> Finding:
    found = os.statvfs(there)
    used = used_percent(found.f_blocks, found.f_bfree, found.f_bavail)
    free = found.f_bavail * found.f_frsize
    what = f"{used} % used, {free:,} bytes free"
    if used > settings.disk_space_warning_level_ratio:
        limit = f"puts are refused above {settings.disk_space_warning_level_ratio} %"
        return problem("disk space", f"{what}; {limit}", "free some, or use a larger disk")
    wanted = 2 * settings.mapped_file_size_commit_log
    if free < wanted and not is_mine:
        advice = "free some, or lower mapped_file_size_commit_log of a new store"
        return problem("disk space", f"{what}; two log files take {wanted:,}", advice)
    if used > settings.disk_space_clean_forcibly_ratio:
        limit = f"files go before their time above {settings.disk_space_clean_forcibly_ratio} %"
        return warning("disk space", f"{what}; {limit}", "free some, or use a larger disk")
    if used > settings.disk_max_used_space_ratio:
        limit = f"expired files go at any hour above {settings.disk_max_used_space_ratio} %"
        return warning("disk space", f"{what}; {limit}", "lower file_reserved_time_h, or free some")
    return ok("disk space", what)


def _inodes(there: os.PathLike[str]) -> Finding:
    found = os.statvfs(there)
    if found.f_files == 0:
        return ok("inodes", "the file system has no fixed number of them")
    what = f"{found.f_favail:,} of {found.f_files:,} free"
    advice = "remove small files, or make the file system with more inodes"
    if found.f_favail < 100:
        return problem("inodes", f"{what}: each log, queue and index file takes one", advice)
    if found.f_favail < _FEW_INODES:
        return warning("inodes", f"{what}: each log, queue and index file takes one", advice)
    return ok("inodes", what)


def _can_be_made(path: str) -> Finding:
    there = existing(path)
    if not there.is_dir():
        return problem("folder", f"{there} is no folder", "give another --store")
    if str(there) == os.path.abspath(path):
        advice = "run silo doctor as the store's user or root"
        return problem("folder", f"user {os.geteuid()} may not open {there}", advice)
    if not os.access(there, os.W_OK | os.X_OK):
        advice = f"make {quoted(path)} as root and give it to the store's user"
        return problem("folder", f"user {os.geteuid()} may not make it in {there}", advice)
    return ok("folder", f"it does not exist; the first start makes it in {there}")


def _rights(root: Folder) -> Iterator[Finding]:
    about = os.fstat(root.fd)
    user = os.geteuid()
    mode = stat.S_IMODE(about.st_mode)
    what = f"owner {about.st_uid}, mode {mode:04o}"
    shown = quoted(root.path)
    if mode & 0o002:
        advice = f"chmod o-w {shown}"
        yield problem("folder", f"{what}: every user may replace the store's files", advice)
    elif user not in (0, about.st_uid):
        advice = f"run the store as user {about.st_uid}, or chown -R {user} {shown}"
        yield warning("folder", f"{what}: it belongs to another user than this one", advice)
    elif not os.access(root.path, os.R_OK | os.W_OK | os.X_OK):
        advice = f"chmod u+rwx {shown}"
        yield problem("folder", f"{what}: its own user may not write to it", advice)
    else:
        yield ok("folder", what)
    strangers = list(_strangers(root, about.st_uid))
    if strangers:
        more = f" and {len(strangers) - 1:,} more" if len(strangers) > 1 else ""
        yield problem(
            "files",
            f"{strangers[0]}{more} belong to another user than the folder",
            f"stop the store, then chown -R {about.st_uid} {shown}",
        )
    else:
        yield ok("files", "all belong to the folder's owner")


def _strangers(root: Folder, owner: int) -> Iterator[str]:
    """Files of other users in the store's folders, as a start by root leaves them."""
    seen = 0
    for name in ("", COMMIT_LOG, CONFIG, CONSUME_QUEUE, INDEX, OURS):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for entry in os.scandir(os.path.join(root.path, name)):
                seen += 1
                if seen > _MOST_ENTRIES:
                    return
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_uid != owner:
                        yield entry.path
