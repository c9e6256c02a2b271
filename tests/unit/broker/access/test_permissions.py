"""What an account has: lists, defaults, administrators, and topics that are apart."""

from __future__ import annotations

import pytest

from silomq.broker.access.permissions import Account, Need, Perm
from silomq.broker.access.signatures import SigningKey

KEY = SigningKey(b"secret")
BOTH = Perm.PUB | Perm.SUB


@pytest.mark.parametrize(
    ("text", "perm"),
    [
        *(("DENY", Perm.DENY), ("PUB", Perm.PUB), (" SUB ", Perm.SUB)),
        *(("PUB|SUB", BOTH), ("SUB|PUB", BOTH)),
    ],
)
def test_permissions_as_text(text: str, perm: Perm) -> None:
    assert Perm.parse(text) == perm


@pytest.mark.parametrize("text", ["", "pub", "PUB | SUB", "ANY", "PUB|PUB", "DENY|PUB"])
def test_text_that_is_no_permission(text: str) -> None:
    with pytest.raises(ValueError, match="DENY, PUB, SUB or PUB"):
        Perm.parse(text)


def test_lists_go_before_defaults() -> None:
    perms = {"closed": Perm.DENY, "sent": Perm.PUB, "%RETRY%closed": Perm.DENY}
    account = Account("key", KEY, default_topic=BOTH, default_group=Perm.SUB, perms=perms)
    assert account.has(Need("any", Perm.PUB))
    assert account.has(Need("sent", Perm.PUB))
    assert not account.has(Need("sent", Perm.SUB))
    assert not account.has(Need("closed", Perm.PUB))
    assert account.has(Need("%RETRY%any", Perm.SUB))
    assert not account.has(Need("%RETRY%closed", Perm.SUB))


def test_no_default_opens_topics_in_which_messages_of_all_topics_wait() -> None:
    account = Account("key", KEY, default_topic=BOTH)
    listed = Account("key", KEY, perms={"SCHEDULE_TOPIC_XXXX": Perm.SUB})
    for topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"):
        assert not account.has(Need(topic, Perm.SUB))
        assert Account("key", KEY, admin=True).has(Need(topic, Perm.SUB))
    assert listed.has(Need("SCHEDULE_TOPIC_XXXX", Perm.SUB))


def test_administrators_and_traces() -> None:
    nobody = Account("key", KEY)
    assert nobody.has(Need("RMQ_SYS_TRACE_TOPIC", Perm.PUB))
    assert not nobody.has(Need("RMQ_SYS_TRACE_TOPIC", Perm.SUB))
    assert Account("key", KEY, admin=True).has(Need("any", BOTH))
    # As in RocketMQ: a list of its own holds for an administrator too.
    assert not Account("key", KEY, admin=True, perms={"a": BOTH}).has(Need("b", Perm.PUB))


def test_no_text_shows_a_secret() -> None:
    assert "secret" not in repr(Account("key", KEY)).lower()
    assert str(Need("%RETRY%g", Perm.SUB)) == "SUB of group 'g'"
    assert str(Need("a\nb", Perm.PUB)) == "PUB of topic 'a\\nb'"


def test_a_need_of_either_takes_one_of_its_permissions() -> None:
    for given in Perm:
        account = Account("key", KEY, perms={"a": given})
        assert account.has(Need("a", BOTH, either=True))
        assert not account.has(Need("a", BOTH))
        assert not account.has(Need("b", BOTH, either=True))
    assert not Account("key", KEY, perms={"a": Perm.DENY}).has(Need("a", BOTH, either=True))
    assert Account("key", KEY).has(Need("RMQ_SYS_TRACE_TOPIC", BOTH, either=True))
    assert str(Need("a", BOTH, either=True)) == "PUB or SUB of topic 'a'"
    assert str(Need("%RETRY%g", BOTH)) == "PUB and SUB of group 'g'"
