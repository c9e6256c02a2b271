"""Our manifest of a golden store is RocketMQ's, line by line."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from typing import Any

import pytest
from support import golden_stores, offline_stores

from silomq.tools.raw.files import BadInput
from silomq.tools.rocketmq.manifest import KeyQuery, TimeQuery, manifest
from silomq.tools.rocketmq.view import StoreView

KINDS = ("store", "blank", "queue", "msg", "time", "key")


@pytest.fixture(scope="module", params=golden_stores.NAMES)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> golden_stores.Golden:
    return offline_stores.unpack(request.param, tmp_path_factory.mktemp("golden"))


def time_queries(store: golden_stores.Golden) -> list[TimeQuery]:
    return [
        TimeQuery.parse(f"{line['topic']},{line['queueId']},{line['ts']}")
        for line in store.of("time")
    ]


def key_queries(store: golden_stores.Golden) -> list[KeyQuery]:
    names = ("topic", "key", "maxNum", "begin", "end")
    return [KeyQuery.parse(",".join(str(line[name]) for name in names)) for line in store.of("key")]


def test_every_line_is_rocketmqs(store: golden_stores.Golden) -> None:
    with lzma.open(golden_stores.FOLDER / f"{store.name}.manifest.jsonl.xz", "rt") as file:
        text = [line.rstrip("\n") for line in file]
    wanted = [line for line in text if json.loads(line)["kind"] in KINDS]
    before = offline_stores.state(store.path)
    view = StoreView(store.path, offline_stores.settings())
    assert list(manifest(view, time_queries(store), key_queries(store))) == wanted
    assert view.log.problems == []
    assert offline_stores.state(store.path) == before


def by_key(messages: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The messages of each topic and key, in order."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        keys = {*(message["keys"] or "").split(" "), message["properties"].get("UNIQ_KEY")}
        for key in keys - {None}:
            found[message["topic"], key].append(message)
    return found


def test_exact_answers(store: golden_stores.Golden) -> None:
    view = StoreView(store.path, offline_stores.settings())
    lines = [json.loads(x) for x in manifest(view, time_queries(store), exact=True)]
    served: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for message in store.of("msg"):
        if message.get("cq"):
            served[message["topic"], message["queueId"]].append(message)
    for line in lines:
        if line["kind"] != "time":
            continue
        of_queue = served[line["topic"], line["queueId"]]
        later = [m["queueOffset"] for m in of_queue if m["storeTimestamp"] >= line["ts"]]
        end = max((m["queueOffset"] + 1 for m in of_queue), default=0)
        assert line["offset"] == min(later, default=end)


def test_exact_keys(store: golden_stores.Golden) -> None:
    view = StoreView(store.path, offline_stores.settings())
    first = view.index.files[0].begin_offset
    messages = by_key(store.of("msg"))
    for query, text in zip(
        key_queries(store),
        list(manifest(view, (), key_queries(store), exact=True))[-len(store.of("key")) :],
        strict=True,
    ):
        line = json.loads(text)
        right = [
            m["commitLogOffset"]
            for m in messages[query.topic, query.key]
            if query.begin <= m["storeTimestamp"] <= query.end
            and m["sysFlag"] & 12 != 12
            # In `preblank` RocketMQ indexed only what came behind its recovery's start.
            and m["commitLogOffset"] >= first
        ]
        assert line["offsets"] == right[-query.most :]


@pytest.mark.parametrize("text", ["", "a", "a,1", "a,b,1", "a,1,"])
def test_bad_time_queries_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="TOPIC,QUEUE,TIMESTAMP"):
        TimeQuery.parse(text)


@pytest.mark.parametrize("text", ["", "a", "a,k,1,2", "a,k,1,2,x"])
def test_bad_key_queries_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="TOPIC,KEY,MAX,BEGIN,END"):
        KeyQuery.parse(text)


def test_a_key_may_hold_commas() -> None:
    assert KeyQuery.parse("t,a,b,1,2,3") == KeyQuery("t", "a,b", 1, 2, 3)
