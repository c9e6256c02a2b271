"""Compressed bodies on the command line: `tail` and `query` show what was sent, `dump` what is
stored.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING

from support.commands import silo
from support.compressed import send_stored

from silomq import Producer
from silomq.store.record.compression import ZLIB

if TYPE_CHECKING:
    from pathlib import Path

COMPRESSED = 1 | ZLIB << 8
BODY = "many words, many words, many words"


def test_commands_show_bodies_decompressed_and_go_on_behind_bad_ones(store: Path) -> None:
    packed = zlib.compress(BODY.encode())
    with Producer(store) as producer:
        producer.open_topic("packed")
        sent = [
            send_stored(producer, "packed", stored, COMPRESSED, KEYS="k")
            for stored in (packed, b"\x1bbad", packed)
        ]
    why = "the body is no zlib stream"
    plain = silo("tail", "packed", "--max", "3", store=store)
    shown = [line.split("  ")[-1] for line in plain.stdout.decode().splitlines()]
    assert shown == [BODY, "\\x1bbad", BODY]
    assert why in plain.stderr.decode()
    assert "\x1b" not in plain.stderr.decode()
    said = silo("tail", "packed", "--max", "3", "--json", store=store)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert [line.get("body") for line in lines] == [BODY, None, BODY]
    assert base64.b64decode(lines[1]["body_base64"]) == b"\x1bbad"
    assert lines[1]["body_error"].startswith(why)
    found = silo("query", "key", "packed", "k", "--json", "--body", store=store)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [line["body_size"] for line in lines] == [len(BODY), 4, len(BODY)]
    assert [line["sys_flag"] for line in lines] == [COMPRESSED] * 3
    assert [line.get("body") for line in lines] == [BODY, None, BODY]
    one = silo("query", "id", sent[0].offset_message_id, "--body", store=store)
    assert f"Body Size:           {len(BODY)}" in one.stdout.decode()
    dumped = silo("dump", "record", str(store), str(sent[0].physical_offset))
    assert packed.hex() in dumped.stdout.decode()
