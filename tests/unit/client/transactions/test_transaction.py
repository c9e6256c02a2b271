"""A transaction's states, without a store."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from silomq import IllegalType, StoreClosed
from silomq.client.transactions import transaction as module
from silomq.client.transactions.transaction import Transaction
from silomq.store.errors import IllegalUse

if TYPE_CHECKING:
    from silomq.store.transactions.decisions import Decision


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decisions: list[Decision] = []
        self.fails = False
        monkeypatch.setattr(module, "send_decision", self._send)
        half: Any = SimpleNamespace(message_id="A" * 32, queue_offset=12, physical_offset=3456)
        producer: Any = None
        self.transaction = Transaction(producer, "pg", "t", half)

    def _send(self, _producer: object, decision: Decision, _timeout: object) -> str:
        if self.fails:
            raise StoreClosed("the store is gone")
        self.decisions.append(decision)
        return "answer"

    @property
    def kinds(self) -> list[bool]:
        return [decision.commit for decision in self.decisions]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_a_decision_names_the_half(rig: Rig) -> None:
    answer: object = rig.transaction.commit()
    assert answer == "answer"
    assert rig.decisions == [(True, 12, 3456, "pg", "A" * 32)]
    assert rig.transaction.state == "committed"
    assert repr(rig.transaction) == f"<Transaction {'A' * 32} for t: committed>"


def test_it_cannot_be_decided_otherwise_afterwards(rig: Rig) -> None:
    rig.transaction.rollback()
    with pytest.raises(IllegalUse, match="is rolled back already"):
        rig.transaction.commit()
    rig.transaction.rollback()
    assert rig.kinds == [False, False]


def test_a_decision_that_failed_may_be_tried_again(rig: Rig) -> None:
    rig.fails = True
    with pytest.raises(StoreClosed):
        rig.transaction.commit()
    rig.fails = False
    rig.transaction.commit()
    assert rig.kinds == [True]


def test_a_block_commits_or_rolls_back(rig: Rig) -> None:
    with rig.transaction:
        pass
    assert rig.kinds == [True]


def test_a_block_that_fails_rolls_back(rig: Rig) -> None:
    with pytest.raises(KeyError), rig.transaction:
        raise KeyError
    assert rig.kinds == [False]


def test_a_block_leaves_a_decision_as_it_is(rig: Rig) -> None:
    with rig.transaction as transaction:
        transaction.rollback()
    assert rig.kinds == [False]


def test_the_error_of_a_block_is_not_hidden(rig: Rig) -> None:
    rig.fails = True
    with pytest.raises(KeyError), rig.transaction:
        raise KeyError


def test_it_is_not_copied(rig: Rig) -> None:
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(IllegalType, match="Transaction"):
            call(rig.transaction)
