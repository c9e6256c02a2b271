"""`silo topics` and the filters of `silo tail`, as a user runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.commands import sentence, silo

from silomq import Producer

if TYPE_CHECKING:
    from pathlib import Path


def test_a_topic_from_creation_to_deletion(store: Path) -> None:
    made = silo("topics", "create", "orders", "-r", "4", "-w", "2", "-p", "rw", store=store)
    assert made.stderr == b"topic orders has 2 write, 4 read queues; clients may read, write\n"
    with Producer(store) as producer:
        producer.send("orders", "x", queue=1)
    done = silo("topics", "update", "orders", "--perm", "4", "--order", "--json", store=store)
    assert json.loads(done.stdout)["perm"] == 4
    found = json.loads(silo("topics", "show", "orders", "--json", store=store).stdout)
    queues = found.pop("queues")
    expected = {"topic": "orders", "write_queues": 2, "read_queues": 4, "perm": 4, "order": True}
    assert {name: found[name] for name in expected} == expected
    assert [q["max_offset"] for q in queues] == [0, 1, 0, 0]
    assert [q["write"] for q in queues] == [True, True, False, False]
    shown = silo("topics", "show", "orders", store=store).stdout.decode()
    assert shown.startswith("orders: perm 4 (read), ordered\n")
    assert ["1", "0", "1", "1", "consumers,", "producers"] in map(str.split, shown.splitlines())
    listed = json.loads(silo("topics", "list", "--json", store=store).stdout)
    assert [topic["topic"] for topic in listed] == ["orders"]
    kept = silo("topics", "delete", "orders", store=store, status=1, stdin=b"n\n")
    assert b"its 1 messages?" in kept.stderr
    assert b"nothing was deleted" in kept.stderr
    silo("topics", "delete", "orders", store=store, status=1)
    gone = silo("delete-topic", "orders", "--yes", "--json", store=store)
    assert json.loads(gone.stdout) == {"topic": "orders", "deleted": True}
    again = silo("topics", "delete", "orders", "--yes", store=store)
    assert again.stderr == b"there is no topic orders\n"
    why = sentence(silo("topics", "show", "orders", store=store, status=2))
    assert "topic orders does not exist" in why


def test_wrong_usage_is_said(store: Path) -> None:
    nothing = sentence(silo("topics", "update", "orders", store=store, status=2))
    assert "nothing to change" in nothing
    system = sentence(silo("delete-topic", "SCHEDULE_TOPIC_XXXX", "-y", store=store, status=2))
    assert "the store's own" in system
    assert "--perm" in sentence(silo("topics", "create", "t", "-p", "7", store=store, status=2))
    none = silo("topics", "create", "t", "--queues", "0", store=store, status=2)
    assert "0 is not in the range x>=1" in sentence(none)


def test_tail_shows_what_its_filter_matches(store: Path) -> None:
    with Producer(store) as producer:
        for n, tag in enumerate(("a", "b", "c", "Aa", "BB")):
            properties = {"price": str(n)}
            producer.send("filtered", f"{n}", tags=tag, properties=properties, queue=0)

    def bodies(*options: str) -> list[str]:
        done = silo("tail", "filtered", "--body-only", *options, store=store)
        return done.stdout.decode().split()

    assert bodies() == ["0", "1", "2", "3", "4"]
    assert bodies("--tag", "a || c") == ["0", "2"]
    assert bodies("--tag", "a", "--tag", "Aa") == ["0", "3"]
    assert bodies("--tag", "*") == ["0", "1", "2", "3", "4"]
    assert bodies("--sql", "price BETWEEN 1 AND 3 AND TAGS <> 'c'") == ["1", "3"]
    assert bodies("--sql", "price > 0", "--max", "1") == ["1"]
    why = sentence(silo("tail", "filtered", "--sql", "price >", store=store, status=2))
    assert "position 7: found the end, expected a property" in why
    both = sentence(silo("tail", "filtered", "--sql", "a", "--tag", "b", store=store, status=2))
    assert "exclude each other" in both
    assert "names no tag" in sentence(
        silo("tail", "filtered", "--tag", "||", store=store, status=2)
    )
