"""Errors say what happened and where."""

from __future__ import annotations

import pickle

from silomq.store.errors import Corrupt, CorruptRange, IllegalMessage, StoreError
from silomq.store.status import PutMessageStatus


def test_errors_say_what_and_where_and_survive_pickling() -> None:
    errors: list[StoreError] = [
        Corrupt("commitlog/0", 12, "bad magic"),
        CorruptRange(100, 150),
        IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, "no topic"),
    ]
    said = [
        "corrupt data at commitlog/0, offset 12: bad magic",
        "100 to 150 (50 bytes)",
        "no topic",
    ]
    for error, words in zip(errors, said, strict=True):
        assert words in str(error)
        # Errors cross process borders.
        again = pickle.loads(pickle.dumps(error))
        assert vars(again) == vars(error)
