"""A client that signs, and files of accounts. The signature is made here once more, from RocketMQ's
rule and the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silomq.broker.wire.command import Command, Serialization

#: An account that may send and read, one that may do nothing by default, and an administrator.
READER, GUEST, ADMIN = "reader-key", "guest-key", "admin-key"
SECRET = "a secret of 1234"
ACCOUNTS = f"""\
globalWhiteRemoteAddresses:
accounts:
  - accessKey: {READER}
    secretKey: {SECRET}
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - orders=PUB|SUB
      - sent-only=PUB
      - read-only=SUB
    groupPerms:
      - readers=SUB
  - accessKey: {GUEST}
    secretKey: {SECRET}
  - accessKey: {ADMIN}
    secretKey: {SECRET}
    admin: true
"""


def sign(secret: str, fields: Mapping[str, str], body: bytes) -> str:
    """The signature of a request with these fields."""
    text = "".join(value for name, value in sorted(fields.items()) if name != "Signature")
    mac = hmac.new(secret.encode(), text.encode() + body, hashlib.sha1)
    return base64.b64encode(mac.digest()).decode()


class SigningClient(RemotingClient):
    """Signs all its requests, for an account."""

    def __init__(
        self, address: str, key: str, secret: str = SECRET, *, form: Serialization | None = None
    ) -> None:
        super().__init__(address)
        if form is not None:
            self.form = form
        self.key = key
        self.secret = secret

    def command(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        found = super().command(code, {**(fields or {}), "AccessKey": self.key}, body)
        found.fields["Signature"] = sign(self.secret, found.fields, body)
        return found
