"""Accounts that administrators change over the network (a part of RocketMQ 4's
AdminBrokerProcessor). They stand in the broker's file of accounts, as before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from ..access import editing
from ..access.accounts import BadAccounts, parse_entry
from ..access.editing import Change
from ..access.permissions import Perm
from ..wire.codes import RequestCode, ResponseCode
from ..wire.headers import BadHeader, parse
from .calls import Call, Handlers, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..access.gate import Gate
    from ..wire.command import Command
    from .parts import Parts

_NO_ACCOUNTS: Final = "the broker asks for no accounts (aclEnable)"


class _Account(msgspec.Struct, rename="camel"):
    """CreateAccessConfigRequestHeader: lists are texts with commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class _Key(msgspec.Struct, rename="camel"):
    access_key: str


class _White(msgspec.Struct, rename="camel"):
    global_white_addrs: str


class AccountProcessor:
    """Changes the file of accounts, and tells its version. `address` is the one that clients are
    told.
    """

    def __init__(self, parts: Parts, gate: Gate | None, address: str) -> None:
        self._settings = parts.settings
        self._gate = gate
        self._address = address

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.put,
            RequestCode.DELETE_ACL_CONFIG: self.remove,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.version,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.white,
        }

    async def put(self, call: Call) -> Command:
        """Adds an account, or changes it: what the request does not name stays."""
        header = parse(_Account, call.request.fields)
        change = _change(header)
        await self._edit(
            lambda path: editing.put_account(path, header.access_key, change),
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
        )
        return call.request.answer()

    async def remove(self, call: Call) -> Command:
        """Removes an account."""
        key = parse(_Key, call.request.fields).access_key
        await self._edit(
            lambda path: editing.remove_account(path, key),
            ResponseCode.DELETE_ACL_CONFIG_FAILED,
        )
        return call.request.answer()

    async def white(self, call: Call) -> Command:
        """Sets the addresses whose requests are not checked."""
        text = parse(_White, call.request.fields).global_white_addrs
        addresses = [one.strip() for one in text.split(",") if one.strip()]
        await self._edit(
            lambda path: editing.set_white(path, addresses),
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
        )
        return call.request.answer()

    async def _edit(self, edit: Callable[[Path], None], failed: ResponseCode) -> None:
        """Changes the file, which is in force when this returns. Raises Refused."""
        if self._gate is None:
            raise Refused(failed, _NO_ACCOUNTS)
        try:
            await self._gate.edit(edit)
        except BadAccounts as error:
            raise Refused(failed, str(error)) from error
        except OSError as error:
            why = f"the broker cannot write its accounts ({error.strerror}): use `silo acl` there"
            raise Refused(failed, why) from error

    async def version(self, call: Call) -> Command:
        """The version of the accounts, which counts the changes that tools have made."""
        if self._gate is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, _NO_ACCOUNTS)
        path, (counter, timestamp) = self._gate.path, self._gate.version
        version = {"counter": counter, "stateVersion": 0, "timestamp": timestamp}
        fields = {
            "version": json.dumps(version),
            "allAclFileVersion": json.dumps({str(path): version}),
            "brokerName": self._settings.broker_name,
            "brokerAddr": self._address,
            "clusterName": self._settings.broker_cluster_name,
        }
        return call.request.answer(fields=fields)


def _change(header: _Account) -> Change:
    """What a request changes. A list that it brings takes the place of the one before."""
    try:
        topics, groups = (
            None if text is None else dict(parse_entry(name, one) for one in _items(text))
            for name, text in (
                ("topicPerms", header.topic_perms),
                ("groupPerms", header.group_perms),
            )
        )
        defaults = [
            None if text is None else Perm.parse(text)
            for text in (header.default_topic_perm, header.default_group_perm)
        ]
    except ValueError as error:
        raise BadHeader(f"the request's fields: {error}") from error
    return Change(
        secret=header.secret_key,
        white=header.white_remote_address,
        admin=header.admin,
        default_topic=defaults[0],
        default_group=defaults[1],
        only_topics=topics,
        only_groups=groups,
    )


def _items(text: str) -> list[str]:
    return [one for one in text.split(",") if one.strip()]
