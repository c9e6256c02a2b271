"""`silo request` against a real store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.commands import sentence, silo
from support.repliers import Replier

if TYPE_CHECKING:
    from pathlib import Path


def test_a_reply_is_printed(store: Path, topic: str) -> None:
    with Replier(store, topic):
        done = silo("request", topic, "1 2 3", "--tags", "a", store=store)
        assert done.stdout == b"re: 1 2 3\n"
        more = ("--json", "--timeout", "20", "--keys", "k", "--queue", "0")
        found = json.loads(silo("request", topic, "x", *more, store=store).stdout)
    assert found["body"] == "re: x"
    assert found["properties"]["MSG_TYPE"] == "reply"


def test_without_a_reply_it_says_what_to_look_for(store: Path, topic: str) -> None:
    done = silo("request", topic, "x", "--timeout", "0.1", store=store, status=1)
    said = sentence(done)
    assert "no reply to request" in said
    assert f"Does a consumer of topic {topic} run, and reply?" in said
