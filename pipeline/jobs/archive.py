"""Archives: full commit-log files copied to another place, so that messages outlive retention and
the machine.

An archive is a folder with `commitlog/` (copies of the files), `config/` (the store's JSON files)
and `archive.json`, the manifest. Files that the manifest does not name are not part of the archive.
The manifest is replaced last, after every file was copied and read back. So the same store can add
to an archive at any time, and an archive in a folder can be read like a store. Manifest:

=========  ======================================================================================
field      meaning
=========  ======================================================================================
format     1
file_size  bytes of each commit-log file
files      of each: name, and as its seal size, crc32c (8 hex digits), records, first_offset,
           last_offset (of the last record), first_store_time, last_store_time (epoch ms)
config     of each: name (below the folder), size, crc32c
=========  ======================================================================================
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...store.commitlog import _scan as kernel
from ...store.commitlog.seals import SEALS, Seal
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG, OURS, file_name
from ...store.errors import Corrupt
from ...tools.raw.files import BadInput, StoreFiles
from ...tools.raw.walk import holds_records
from .filesystems import Place
from .tasks import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from ...conf.settings import Settings

MANIFEST: Final = "archive.json"
FORMAT: Final = 1
_COPIED: Final = (
    "name string, size long, crc32c string, records long, first_offset long, last_offset long, "
    "first_store_time long, last_store_time long"
)
_HALF: Final = "restoring"
_LOG_NAME: Final = re.compile(r"[0-9]{20}")
_CONFIG_NAME: Final = re.compile(r"config/[A-Za-z0-9_-]+\.json")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an archive or a restore: names of the log files copied, names of those that the
    archive had already, the bytes copied, and the manifest.
    """

    copied: tuple[str, ...]
    present: tuple[str, ...]
    size: int
    manifest: dict[str, Any]


def archive(
    spark: SparkSession, store: str | os.PathLike[str], url: str, settings: Settings
) -> Outcome:
    """Copies the full commit-log files of a store, which may run, to the archive at `url`. Each
    file is copied and read back in a task of its own; files that the archive already has are left
    alone.

    Raises BadInput for another store's archive, Corrupt for a file that does not match its seal or
    was not read back as written, and OSError.
    """
    files = StoreFiles(store, settings)
    place = Place(url)
    manifest = read_manifest(place) or {"format": FORMAT, "file_size": files.log_size, "files": []}
    if manifest["file_size"] != files.log_size:
        raise BadInput(
            f"{url} holds files of {manifest['file_size']} bytes, {files.path} has such of "
            f"{files.log_size}: it is another store's archive, or the settings are"
        )
    there = {entry["name"]: entry for entry in manifest["files"]}
    names = [file_name(base) for base in _full(files)]
    for name in set(names) & set(there):
        sealed = _seal(files, name)
        if sealed is not None and sealed.crc32c != there[name]["crc32c"]:
            raise BadInput(
                f"{url} holds another {COMMIT_LOG}/{name} (CRC-32C {there[name]['crc32c']}, the "
                f"store's {sealed.crc32c}): give each store an archive of its own"
            )
    wanted = [name for name in names if name not in there]
    work = functools.partial(_copy, os.path.abspath(files.path), url, settings)
    copied = run(spark, wanted, work, _COPIED)
    entries = sorted([*there.values(), *copied], key=lambda entry: str(entry["name"]))
    config = [_config(place, name, files.small_file(name) or b"") for name in files.json_files()]
    manifest |= {"files": entries, "config": config}
    place.write(MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    place.clear_parts()
    return Outcome(
        tuple(wanted),
        tuple(name for name in names if name in there),
        sum(entry["size"] for entry in copied),
        manifest,
    )


def read_manifest(place: Place) -> dict[str, Any] | None:
    """The manifest of the archive at a place; None if there is none. Raises BadInput for a file
    that is not a manifest.
    """
    data = place.read(MANIFEST)
    if data is None:
        return None
    try:
        found: dict[str, Any] = json.loads(data)
        if found["format"] != FORMAT:
            raise BadInput(f"{place}/{MANIFEST} has format {found['format']}, known is {FORMAT}")
        found["file_size"] = int(found["file_size"])
        for entry in found["files"]:
            _check_entry(entry, _LOG_NAME)
        for entry in found["config"]:
            _check_entry(entry, _CONFIG_NAME)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{place}/{MANIFEST} is no manifest of an archive: {error!r}") from error
    return found


def _check_entry(entry: dict[str, Any], names: re.Pattern[str]) -> None:
    """Checks an entry of the manifest: its name becomes a path. Raises ValueError."""
    int(entry["crc32c"], 16)
    if not names.fullmatch(entry["name"]):
        raise ValueError(f"it names {entry['name']!a}, which is none of a store's files")


def restore(
    spark: SparkSession,
    url: str,
    store: str | os.PathLike[str],
    *,
    first: int = 0,
    end: int | None = None,
) -> Outcome:
    """Copies an archive back into the folder `store`: the log files that hold addresses [first,
    end), and those JSON files that the folder does not have. `rebuild` then makes queues and index.

    Raises BadInput where there is no archive or a log file exists already, Corrupt for a file that
    does not match the manifest, and OSError.
    """
    path = os.path.abspath(store)
    manifest = read_manifest(Place(url))
    if manifest is None:
        raise BadInput(f"{url} is no archive: there is no {MANIFEST}")
    size = manifest["file_size"]
    wanted = [
        entry
        for entry in manifest["files"]
        if int(entry["name"]) + size > first and (end is None or int(entry["name"]) < end)
    ]
    log = f"{path}/{COMMIT_LOG}"
    taken = [entry["name"] for entry in wanted if disk.exists(f"{log}/{entry['name']}")]
    if taken:
        raise BadInput(f"{log}/{taken[0]} is there already: restore into another folder")
    Folder.open(log, create=True).close()
    rest = [entry for entry in manifest["config"] if not disk.exists(f"{path}/{entry['name']}")]
    named = [{**entry, "name": f"{COMMIT_LOG}/{entry['name']}"} for entry in wanted]
    run(spark, [*named, *rest], functools.partial(_copy_back, url, path), "name string, size long")
    with Folder.open(path) as folder:
        disk.sync_file_system(folder)
        if folder.has(_HALF):
            folder.remove_folder(_HALF)
    names = tuple(entry["name"] for entry in wanted)
    return Outcome(names, (), sum(entry["size"] for entry in wanted), manifest)


def _full(files: StoreFiles) -> list[int]:
    """The first offsets of the files that are no longer written: those before the last that holds
    records.
    """
    last = next((f.base for f in reversed(files.log) if holds_records(files, f.base)), 0)
    return [file.base for file in files.log if file.base < last]


def _seal(files: StoreFiles, name: str) -> Seal | None:
    """The seal that the store wrote when a file was full; None without one. Raises Corrupt for a
    seal that cannot be read.
    """
    path = f"{OURS}/{SEALS}/{name}.json"
    data = files.small_file(path)
    if data is None:
        return None
    try:
        return Seal(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise Corrupt(f"{files.path}/{path}", 0, f"not a seal: {error}") from error


def _copy(store: str, url: str, settings: Settings, name: str) -> list[dict[str, Any]]:
    """Copies one file and reads it back. Returns its line of the manifest. Raises Corrupt."""
    files, place = StoreFiles(store, settings), Place(url)
    base = int(name)
    view = files.log_view(base)
    crc = place.write(f"{COMMIT_LOG}/{name}", view)
    found = Seal(len(view), f"{crc:08x}", *_bounds(view, base))
    sealed = _seal(files, name)
    if sealed is not None and sealed != found:
        why = f"its CRC-32C is {found.crc32c}, its seal says {sealed.crc32c}: see silo verify"
        raise Corrupt(files.log_path(base), base, why)
    back = place.checksum(f"{COMMIT_LOG}/{name}")
    if back != crc:
        why = f"read back with CRC-32C {back:08x}, written with {crc:08x}"
        raise Corrupt(f"{url}/{COMMIT_LOG}/{name}", base, why)
    return [{"name": name, **msgspec.structs.asdict(found)}]


def _bounds(view: memoryview, base: int) -> tuple[int, int, int, int, int]:
    records, last, first_time, last_time, _ = kernel.bounds(view, base)
    return records, base, last, first_time, last_time


def _config(place: Place, name: str, data: bytes) -> dict[str, Any]:
    crc = place.write(name, data)
    return {"name": name, "size": len(data), "crc32c": f"{crc:08x}"}


def _copy_back(url: str, path: str, entry: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Copies one file into the store. The file gets its final name after its checksum was checked.
    Raises Corrupt.
    """
    name = str(entry["name"])
    with (
        Folder.open(path, create=True) as root,
        root.folder(_HALF, create=True) as halves,
        root.parent(name, create=True) as (folder, last),
    ):
        half = name.replace("/", "-")
        with halves.file(half, write=True, create=True) as fd:
            disk.set_size(fd, 0)
            crc = Place(url).checksum(name, lambda piece: disk.append(fd, piece))
            size = disk.size_of(fd)
        if f"{crc:08x}" != entry["crc32c"]:
            halves.unlink(half)
            why = f"its CRC-32C is {crc:08x}, the manifest says {entry['crc32c']}"
            raise Corrupt(f"{url}/{name}", 0, why)
        halves.rename(half, folder, last)
    return [{"name": name, "size": size}]


def verify(spark: SparkSession, url: str) -> list[tuple[str, str]]:
    """Reads a whole archive. Returns (file, what is wrong) for each file that does not match the
    manifest.

    Raises BadInput where there is no archive.
    """
    manifest = read_manifest(Place(url))
    if manifest is None:
        raise BadInput(f"{url} is no archive: there is no {MANIFEST}")
    named = [{**entry, "name": f"{COMMIT_LOG}/{entry['name']}"} for entry in manifest["files"]]
    work = functools.partial(_look, url)
    found = run(spark, [*named, *manifest["config"]], work, "name string, what string")
    return [(row["name"], row["what"]) for row in found]


def _look(url: str, entry: dict[str, Any]) -> list[dict[str, Any]]:
    name = str(entry["name"])
    try:
        crc = Place(url).checksum(name)
    except FileNotFoundError:
        return [{"name": name, "what": "the file is missing"}]
    if f"{crc:08x}" == entry["crc32c"]:
        return []
    return [{"name": name, "what": f"CRC-32C {crc:08x}, the manifest says {entry['crc32c']}"}]
