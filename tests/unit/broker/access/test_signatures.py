"""Signatures, against a known one and against the standard library."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.signers import sign

from silomq.broker.access.signatures import SigningKey, signed_fields

GOLDEN = b"bUNDfLxxr02vTlIhHg73lpRhduQ="
NEW = 479


def test_a_known_signature() -> None:
    signed = signed_fields({"topic": "TopicTest", "AccessKey": "ak"}, NEW)
    assert signed == b"akTopicTest"
    key = SigningKey(b"sk")
    assert key.signature(signed, b"") == GOLDEN
    assert key.has_signed(signed, b"", GOLDEN)
    assert not key.has_signed(signed, b"x", GOLDEN)
    assert not key.has_signed(signed, b"", GOLDEN.lower())
    assert not SigningKey(b"sK").has_signed(signed, b"", GOLDEN)


@given(
    st.text(max_size=90),
    st.dictionaries(st.text("abcXYZ_", max_size=4), st.text(max_size=20)),
    st.binary(max_size=100),
)
def test_every_signature_is_that_of_the_standard_library(
    secret: str, fields: dict[str, str], body: bytes
) -> None:
    key = SigningKey(secret.encode())
    assert key.signature(signed_fields(fields, NEW), body).decode() == sign(secret, fields, body)


def test_what_clients_up_to_4_9_3_add_when_they_have_signed() -> None:
    fields = {"topic": "t", "_UNIQUE_KEY_QUERY": "true", "Signature": "s"}
    assert signed_fields(fields, 399) == b"t"
    assert signed_fields(fields, 401) == b"truet"
