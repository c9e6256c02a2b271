"""Long messages in parts: whatever arrives in whatever order is a message or an error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.shm import mail
from silomq.shm.parts import PART, Incomplete, Joiner, NoRoom, Room, packets


class Note(msgspec.Struct, frozen=True, tag_field="do", tag="note"):
    """A message of these tests."""

    text: str = ""


NOTES: mail.Decoder[Note] = msgspec.json.Decoder(Note)
EMPTY = len(msgspec.json.encode(Note()))


def joined(joiner: Joiner[Note], sent: list[bytes]) -> list[Note]:
    """The messages that these packets make."""
    found = []
    for packet in sent:
        try:
            found.append(joiner.decode(packet))
        except Incomplete:
            continue
    return found


@pytest.mark.parametrize("more", [-1, 0, 1, PART, 5 * PART + 1])
def test_a_message_of_any_size_arrives(more: int) -> None:
    note = Note("x" * (mail.MAX_PACKET - EMPTY + more))
    sent = packets(note)
    assert all(len(packet) <= mail.MAX_PACKET for packet in sent)
    assert (len(sent) == 1) == (more <= 0)
    room = Room(10**9)
    assert joined(Joiner(NOTES, 10**9, room), [*sent, *packets(Note("y"))]) == [note, Note("y")]
    assert room.left == 10**9


def test_a_message_above_the_limit_is_not_sent() -> None:
    with pytest.raises(mail.TooLong, match="a message of 122 bytes: at most 121 are taken"):
        packets(Note("x" * (122 - EMPTY)), 121)
    assert len(packets(Note("x" * (121 - EMPTY)), 121)) == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20))
def test_parts_of_different_messages_are_never_mixed(order: list[tuple[int, int]]) -> None:
    """As when a sender begins anew, or a receiver has taken over in the middle."""
    notes = [Note(letter * (3 * PART)) for letter in "abc"]
    sent = [packets(note) for note in notes]
    room = Room(10**9)
    joiner = Joiner(NOTES, 10**9, room)
    found = joined(joiner, [sent[which][number] for which, number in order])
    assert all(note in notes or len(set(note.text)) > 1 for note in found)
    whole = [i for i in range(len(order) - 3) if [n for _, n in order[i : i + 4]] == [0, 1, 2, 3]]
    assert len(found) == len(whole)
    joiner.drop()
    assert room.left == 10**9


FULL = b"x" * PART


@pytest.mark.parametrize(
    "sent",
    [
        [b"1/2 short"],
        [b"1/99999 " + FULL],
        [b"1/2 " + FULL + b"y"],
        [b"1/2 " + FULL, b"2/2 " + FULL + b"y"],
        [b"1/1 {"],
        [b"1/2 " + FULL, b"2/2 x"],
        [b"1/0 x"],
        [b"0/1 x"],
        [b"01/2 " + FULL],
        [b"1/2"],
        [b"17"],
        [b""],
    ],
    ids=lambda sent: str(sent[-1][:12]),
)
def test_parts_that_do_not_fit_are_no_message_and_leave_nothing(sent: list[bytes]) -> None:
    room = Room(10 * PART)
    joiner = Joiner(NOTES, 3 * PART, room)
    with pytest.raises(ValueError):  # noqa: PT011 - as the decoder, which has words of its own
        joined(joiner, sent)
    assert room.left == 10 * PART
    assert joined(joiner, packets(Note("good"))) == [Note("good")]


def test_all_senders_share_the_room_for_unfinished_messages() -> None:
    room = Room(3 * PART + 100)
    joiners = [Joiner(NOTES, 10 * PART, room) for _ in range(3)]
    sent = packets(Note("x" * (2 * PART)))
    for joiner in joiners:
        assert joined(joiner, sent[:1]) == []
    with pytest.raises(NoRoom):
        joiners[0].decode(sent[1])
    with pytest.raises(Incomplete):
        joiners[0].decode(sent[2])  # further parts are ignored
    assert joined(joiners[1], sent[1:]) == [Note("x" * (2 * PART))]
    joiners[2].drop()
    assert room.left == 3 * PART + 100
