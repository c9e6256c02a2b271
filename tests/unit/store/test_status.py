"""Statuses have RocketMQ's names and numbers."""

from __future__ import annotations

from support.twins import AppendMessageStatus

from silomq.store.status import GetMessageStatus, PutMessageStatus


def test_statuses_are_numbered_as_in_rocketmq() -> None:
    for kind in (PutMessageStatus, AppendMessageStatus, GetMessageStatus):
        assert [s.value for s in kind] == list(range(len(kind)))
    assert [s.name for s in PutMessageStatus][0::15] == ["PUT_OK", "WHEEL_TIMER_NOT_ENABLE"]
    assert [s.name for s in GetMessageStatus][0::9] == ["FOUND", "OFFSET_RESET"]
    assert [s.name for s in AppendMessageStatus][0::5] == ["PUT_OK", "ROCKSDB_ERROR"]
