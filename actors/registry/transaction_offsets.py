"""How far transactions are dealt with, as the offsets that RocketMQ saves for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...shm.control import Control
from ...store.names import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

#: The topics of transactions, and the control words that say how far these are dealt with. The
#: process `transactions` writes them the other way round. So op records that are left out name no
#: half that is read.
_WORDS: Final = {TRANS_OP_HALF_TOPIC: "trans_op_next", TRANS_HALF_TOPIC: "trans_half_next"}


def transaction_offsets(control: Control) -> Iterator[tuple[tuple[str, str, int], int]]:
    """By group, topic and queue id: the queue offset up to which all is done. None is 0."""
    for topic, word in _WORDS.items():
        done = control.load(word)
        if done:
            yield (TRANS_GROUP, topic, 0), done
