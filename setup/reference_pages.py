"""The pages of docs/ that are generated: `python setup/reference_pages.py` writes them.

`docs/configuration.md` comes from the tables of settings, `docs/file-formats.md` from the
docstrings of the modules that own a format. A test compares the files with what this makes.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docstring_tables import as_markdown

from silomq.conf import annotate, broker_settings, settings
from silomq.conf.live import LIVE
from silomq.store.recovery.layout import SIZES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
#: The modules that own a format, and what the format is of.
FILES: Final = {
    "Records of the commit log": "store/record/format.py",
    "Message ids": "store/record/ids.py",
    "Consume queues": "store/consumequeue/queue.py",
    "Index files": "store/index/file.py",
    "Checkpoint": "store/recovery/checkpoint.py",
    "Topics, groups and offsets": "store/config/__init__.py",
    "Progress of a store": "store/recovery/durable_progress.py",
    "Beginning of the log": "store/recovery/log_begin.py",
    "Seals of full log files": "store/commitlog/seals.py",
    "Declared holes": "store/commitlog/holes.py",
    "Slots of progress": "store/disk/slots.py",
    "Delay levels": "store/delay/delays.py",
    "Timers": "store/delay/timers.py",
    "Timers of RocketMQ": "store/delay/rocketmq_timers.py",
    "Transactions": "store/transactions/progress.py",
    "Acknowledgements of a group's member": "store/groups/ack_file.py",
    "Leases of messages": "store/groups/lease_journal.py",
}
MEMORY: Final = {
    "Control block": "shm/control.py",
    "Topic table": "store/topics/table_layout.py",
    "Rings of producers": "shm/ring.py",
    "Bells of clients": "shm/bell.py",
    "Boards of brokers": "shm/board.py",
    "Progress of the processes": "shm/progress.py",
    "Counters and times": "shm/metrics.py",
    "Reads of a client": "shm/reads.py",
    "The last hour": "shm/history.py",
    "Frames of RocketMQ's protocol": "broker/wire/command.py",
}
_MADE: Final = "*This page is generated: `make fix` writes it. Change {source}, not this page.*"
_OWN_FILE: Final = re.compile(r"`([\w.]+\.(?:py|pyx|pxd|h))`")


def configuration() -> str:
    """The page of all settings."""
    parts = [
        "# Configuration",
        _MADE.format(source="[conf](../conf/schema.py)"),
        (
            "`silo config` prints every setting of a store with its value, and says where "
            "the value comes from. `silo config --template toml` prints a file that lists them all."
        ),
        "A store and a broker take their settings from four places. A later one wins:",
        (
            "1. the default;\n2. the file that `--config` names;\n"
            "3. the environment: `SILOMQ_FLUSH_DISK_TYPE=SYNC_FLUSH` for a store, "
            "`SILOMQ_BROKER_BROKER_NAME=broker-b` for a broker;\n"
            "4. the command line: `--set NAME=VALUE`."
        ),
        (
            "RocketMQ's names may be used in the file and with `--set`. A name that does not "
            "exist, or a value that is not allowed, ends the command with exit "
            "status 3, and the message "
            'names it. Sizes and times may be written as text: `"64KiB"`, '
            '`"500ms"`, `"3d"`. The column '
            "*read* says when a setting is read:"
        ),
        (
            "| read | meaning |\n|---|---|\n"
            "| at the start | a change needs a restart |\n"
            "| at run time | a running store or broker takes it: `systemctl reload` (SIGHUP) for a "
            "store, `mqadmin updateBrokerConfig` for a broker |\n"
            "| when the store is made | it may not be changed later: the store remembers it |"
        ),
        "## Settings of a store",
        *_tables(settings.describe(), annotate.HEADINGS, LIVE),
        "## Settings of a broker",
        "`silo broker` reads these, and so do `silo dev` and `silo serve --listen`.",
        *_tables(broker_settings.describe(), annotate.BROKER_HEADINGS, broker_settings.CHANGEABLE),
    ]
    return "\n\n".join((*parts, ""))


def _tables(
    found: Sequence[settings.Description], headings: Mapping[str, str], live: Collection[str]
) -> list[str]:
    parts: list[str] = []
    rows: list[str] = []
    for setting in found:
        if setting.name in headings:
            parts += ["\n".join(rows)] if rows else []
            parts.append(f"### {headings[setting.name]}")
            rows = [
                "| setting | default | unit, allowed | read | what it is for |",
                f"|{'---|' * 5}",
            ]
        rows.append(f"| {' | '.join(_row(setting, live))} |")
    return [*parts, "\n".join(rows)]


def _row(setting: settings.Description, live: Collection[str]) -> list[str]:
    read = "at the start"
    if setting.name in live:
        read = "at run time"
    if setting.name in SIZES:
        read = "when the store is made"
    names = " or ".join(f"`{name}`" for name in setting.rocketmq)
    allowed = setting.range.partition("; also as text")[0]
    if setting.unit not in ("switch", "text", "choice"):
        allowed = f"{setting.unit}: {allowed}"
    return [
        f'<a id="{setting.name}"></a>`{setting.name}`',
        f"`{_cell(setting.default)}`",
        _cell(allowed),
        read,
        _cell(setting.reason) + (f" RocketMQ: {names}." if names else ""),
    ]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def file_formats() -> str:
    """The page of all formats."""
    parts = [
        "# File formats",
        _MADE.format(source="the docstring of the module that a section names"),
        (
            "A format is described in the docstring of the one module that reads and writes it. A "
            "test compares each table with the code."
        ),
        (
            "Offsets and sizes are in bytes. In RocketMQ's files numbers are big-endian, in all "
            "others they are little-endian. `u32` is an unsigned number of 32 bits, and `i32` a "
            "signed one."
        ),
        "[Files of a store](files.md) says which file is in which folder.",
        "## Files",
    ]
    for title, path in FILES.items():
        parts += _section(title, path)
    parts += [
        "## Shared memory and the network",
        "These are not kept on a disk. A store and its clients must have the same version.",
    ]
    for title, path in MEMORY.items():
        parts += _section(title, path)
    return "\n\n".join((*parts, ""))


def _section(title: str, path: str) -> list[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    if docstring is None:
        raise ValueError(f"{path} has no docstring")

    def whole(match: re.Match[str]) -> str:
        """A file of the module's own folder, with its folder."""
        beside = Path(path).with_name(match[1])
        return f"`{beside}`" if (ROOT / beside).is_file() else match[0]

    text = _OWN_FILE.sub(whole, as_markdown(docstring, heading=4))
    return [f"### {title}", f"Owner: [{path}](../{path})", text]


PAGES: Final = {"docs/configuration.md": configuration, "docs/file-formats.md": file_formats}


if __name__ == "__main__":
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"{name}\n")
