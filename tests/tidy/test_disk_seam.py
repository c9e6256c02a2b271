"""Files are opened, read and changed through `store/disk`, where tests inject faults and record
writes.

The lists below name the calls that count. The test looks for them in every module of the package. A
module that has a reason not to use `store/disk` is listed with its calls and the reason.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from tidy.sources import ROOT, nodes, of_each, parsed, sources

if TYPE_CHECKING:
    from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of `os` and `os.path` that make, change, find or examine files.
OS_CALLS: Final = _words("""
    access chmod chown copy_file_range fchmod fchown fdatasync fstatvfs fsync ftruncate fwalk lchmod
    lchown link listdir lstat makedirs mkdir mkfifo mknod open posix_fadvise posix_fallocate pread
    preadv pwrite pwritev readlink remove removedirs rename renames replace rmdir scandir sendfile
    stat statvfs symlink sync truncate unlink utime walk
""")
PATH_CALLS: Final = _words("""
    exists getatime getctime getmtime getsize isdir isfile islink ismount lexists samefile
""")
#: Modules all of whose functions count.
MODULES: Final = ("shutil", "tempfile", "glob", "mmap")
#: Methods of `pathlib.Path` that count. No other class in the package has methods of these names.
PATH_METHODS: Final = _words("""
    exists glob hardlink_to is_dir is_file is_symlink iterdir lchmod lstat mkdir read_bytes
    read_text rglob rmdir samefile stat symlink_to touch write_bytes write_text
""")
#: Keywords that only `Path.open` and Python's `open` take, and no other function of that name.
OPEN_WORDS: Final = frozenset({"mode", "buffering", "encoding", "errors", "newline"})
_MODE: Final = re.compile(r"[rwxab+t]{1,4}")

_COMPILED: Final = re.compile(
    r"(?<![\w.])(?:openat|creat|fopen|mmap|pread|pwrite|fsync|unlink|ftruncate)\("
    rf"|\bos\.(?:{'|'.join(sorted(OS_CALLS))})\("
)

SEAM: Final = "store/disk/"
_MEMORY: Final = "shared memory, in which there are no files of a store"
_SPARK: Final = "Spark's and Java's own files, in temporary folders and the user's cache"
_KERNEL: Final = "the kernel's files below /proc"
_USER: Final = "a file or folder that the user named, which is no store's"
#: The modules that do not use `store/disk` for some calls, these calls, and the reason.
EXCEPTIONS: Final[dict[str, tuple[frozenset[str], str]]] = {
    path: (_words(calls), why)
    for path, calls, why in (
        ("actors/append_sessions.py", "Mapping", _MEMORY),
        ("actors/bell_mail.py", "Mapping", _MEMORY),
        ("actors/descriptors.py", "os.listdir", _KERNEL),
        ("actors/registry/bells.py", "Mapping", _MEMORY),
        ("actors/schedule/schedule.py", "Mapping", _MEMORY),
        ("actors/transactions/own_ring.py", "Mapping", _MEMORY),
        ("actors/signals.py", "os.open", "the controlling terminal"),
        ("broker/access/access.py", ".stat", _USER),
        ("broker/access/accounts.py", ".open", _USER),
        (
            "broker/access/editing.py",
            ".stat os.fchmod os.fchown os.fsync os.open os.rename os.unlink open",
            _USER,
        ),
        ("broker/link/store.py", "os.path.isdir", "whether there is a folder to wait for"),
        ("cli/bench/bench.py", ".is_dir", _USER),
        ("cli/bench/suite.py", ".mkdir", _USER),
        ("cli/demo/demo.py", ".rglob .is_file .stat", "shows what the demo's store takes on disk"),
        ("cli/demo/flights.py", ".open", "the data that the demo sends"),
        ("cli/demo/network.py", ".open .read_text", "the log of the demo's broker"),
        ("cli/demo/processes.py", ".mkdir .open .read_text", "logs of the demo's processes"),
        ("cli/demo/spark.py", ".write_text", _USER),
        ("cli/main.py", "os.open", "/dev/null in the place of a closed output"),
        (
            "cli/running/dev.py",
            "shutil.rmtree tempfile.mkdtemp",
            "the temporary folder that becomes a store",
        ),
        (
            "cli/running/metrics.py",
            ".read_text os.unlink",
            "a file of the package; the socket that it has made",
        ),
        ("cli/running/serve.py", ".read_bytes", "a template within the package"),
        ("cli/running/send.py", ".read_bytes", _USER),
        ("cli/spark/spark.py", ".write_text", _USER),
        (
            "cli/systemd/installed_files.py",
            """.is_symlink .mkdir .read_text open os.fchmod os.fsync os.rename os.unlink
            tempfile.mkstemp""",
            "units of systemd",
        ),
        ("cli/systemd/systemd.py", ".glob .unlink", "units of systemd"),
        ("cli/systemd/unit_files.py", ".read_text", "templates within the package"),
        ("client/groups/membership.py", "mmap.mmap", _MEMORY),
        ("client/groups/pop_reader.py", "mmap.mmap", _MEMORY),
        ("client/admin/figures.py", "Mapping", _MEMORY),
        ("client/connecting.py", ".is_dir", "whether there is a folder at all, for a message"),
        ("client/reads.py", "Mapping", _MEMORY),
        ("client/session.py", "Mapping os.open", "memory; the socket, by its folder"),
        ("conf/sources.py", ".open", _USER),
        ("conf/standard_streams.py", "os.open open", "/dev/null in the place of a closed stream"),
        ("monitor/families.py", "shutil.disk_usage", "how full the disk is"),
        ("monitor/looks.py", "shutil.disk_usage", "how full the disk is"),
        ("monitor/server.py", "os.lstat os.unlink", "the socket of a dead exporter"),
        ("pipeline/sink/sink.py", ".read_text", "the checkpoint of a Spark query"),
        ("pipeline/source/options.py", "glob.has_magic glob.glob", "the user names stores so"),
        ("pipeline/spark/class_archive.py", ".glob .stat", _SPARK),
        (
            "pipeline/spark/classes.py",
            ".exists .glob .mkdir .replace .stat .unlink tempfile.TemporaryDirectory",
            _SPARK,
        ),
        ("pipeline/spark/java.py", ".mkdir .read_text .write_text os.access shutil.which", _SPARK),
        (
            "pipeline/spark/session.py",
            """.glob .is_dir .mkdir .write_text os.open shutil.rmtree tempfile.gettempdir
            tempfile.mkdtemp""",
            _SPARK,
        ),
        ("actors/registry/read_pages.py", "Mapping os.fchmod", _MEMORY),
        ("shm/board.py", "Mapping os.fchmod os.open", _MEMORY),
        ("shm/pool.py", "Mapping", _MEMORY),
        ("shm/ring.py", "Mapping", _MEMORY),
        ("shm/sealed.py", "os.ftruncate", _MEMORY),
        (
            "shm/segments.py",
            (
                ".is_dir Mapping os.chmod os.fchmod os.listdir os.lstat os.posix_fallocate os.stat "
                "os.unlink"
            ),
            _MEMORY,
        ),
        ("store/consumequeue/queue.py", ".read_text", _KERNEL),
        ("store/recovery/pool_recovery.py", "Mapping", _MEMORY),
        ("store/recovery/power_cut.py", ".read_bytes", _KERNEL),
        ("supervisor/candidate.py", "os.pread", _MEMORY),
        ("supervisor/child.py", "open", _KERNEL),
        ("supervisor/handover.py", "os.pread os.pwrite", _MEMORY),
        ("supervisor/keeping.py", "os.ftruncate", _MEMORY),
        ("supervisor/resuming.py", "os.readlink", _KERNEL),
        ("supervisor/listener.py", "open os.stat", "the kernel's files; a socket's folder"),
        (
            "tools/doctor/kernel.py",
            "Mapping",
            _MEMORY,
        ),
        ("tools/doctor/limits.py", "open", _KERNEL),
        ("tools/doctor/memory.py", "os.access os.statvfs", _MEMORY),
        ("tools/doctor/mounts.py", "open", _KERNEL),
        (
            "tools/doctor/place.py",
            ".is_dir .stat os.access os.scandir os.statvfs",
            "looks at folders above a store too, and never opens a file",
        ),
        ("tools/doctor/stores.py", "Mapping open os.path.lexists os.stat", _KERNEL),
        ("tools/retention.py", "Mapping", _MEMORY),
        ("tools/repair.py", "Mapping os.ftruncate", _MEMORY),
    )
}


def touches(tree: ast.Module) -> set[str]:
    """The names of the calls in a module that count as access to files."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "os.path", *MODULES}:
            found |= {f"from {node.module} import {alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and (name := _touching(node)):
            found.add(name)
    return found


def _touching(call: ast.Call) -> str | None:
    """The name of a call if it counts as access to files, else None."""
    name = ast.unparse(call.func)
    module, _, function = name.rpartition(".")
    if (
        (module == "os" and function in OS_CALLS)
        or (module == "os.path" and function in PATH_CALLS)
        or module in MODULES
        or name in {"open", "io.open", "Mapping"}
    ):
        return name
    if module in {"", "os", "os.path", "disk"}:
        return None
    words = {word.arg for word in call.keywords}
    if (
        function in PATH_METHODS
        # Folder.unlink takes a name, Path.unlink takes none.
        or (function == "unlink" and not call.args)
        # Folder.rename takes three arguments, str.replace two, dataclasses.replace words.
        or (function in {"rename", "replace"} and len(call.args) == 1 and not words)
        or (function == "open" and _opens_a_path(call, words))
    ):
        return f".{function}"
    return None


def _opens_a_path(call: ast.Call, words: set[str | None]) -> bool:
    """Whether a call of a method `open` has the arguments of Path.open: a mode, or none."""
    if not call.args:
        return not words or bool(words & OPEN_WORDS)
    first = call.args[0]
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    return bool(_MODE.fullmatch(first.value))


def test_what_counts_as_touching_a_file() -> None:
    touching = """
os.open(path, flags)
os.path.lexists(path)
shutil.rmtree(path)
open(path)
Mapping(fd, 0, 1, False)
path.open()
path.open("rb")
path.open(encoding="utf-8")
path.read_bytes()
(path / name).unlink(missing_ok=True)
path.rename(other)
path.replace(other)
sorted(path.glob("*"))
from os import rename
"""
    other = """
os.close(fd)
os.path.join(path, name)
Folder.open(path)
disk.exists(path)
log.open(base, writable=True)
folder.unlink(name)
folder.rename(name, other, name)
text.replace("a", "b")
dataclasses.replace(table, topics={})
names: Mapping[str, int] = {}
"""
    for line in touching.strip().splitlines():
        assert touches(ast.parse(line)), line
    for line in other.strip().splitlines():
        assert not touches(ast.parse(line)), line


@of_each(sources(".py"))
def test_files_are_touched_through_the_seam(path: Path) -> None:
    name = str(path)
    if name.startswith((SEAM, "bench/")):  # the benchmarks measure the disk itself
        return
    allowed, _ = EXCEPTIONS.get(name, (frozenset(), ""))
    found = touches(parsed(path))
    assert found == allowed, "not through store/disk, or listed and not made"


def test_every_exception_is_a_module_of_the_package() -> None:
    assert set(EXCEPTIONS) <= {str(path) for path in sources(".py")}


@of_each(sources(".pyx", ".pxd", ".h"))
def test_compiled_code_touches_no_files(path: Path) -> None:
    """Exceptions are the module that maps memory, the benchmark's module, the fault points, which
    remove a test's token file, and the headers within `store/disk`.
    """
    excepted = {"shm/_memory.pyx", "bench/_limits.pyx", "shm/words.h"}
    if str(path) in excepted or (path.suffix == ".h" and str(path).startswith(SEAM)):
        return
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not _COMPILED.findall(text)
