"""Users and rules of RocketMQ 5 (a part of its AdminBrokerProcessor). They are the accounts of the
broker's file: `broker/access/users.py` says how. RocketMQ's proxy asks for them when a client
signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from ..access import editing, users
from ..access.accounts import BadAccounts
from ..access.users import AclInfo, CannotSay, UserInfo
from ..groups.heartbeats import decode
from ..wire.codes import RequestCode, ResponseCode
from ..wire.headers import parse
from .calls import Call, Handlers, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..access.accounts import Form
    from ..access.editing import Change
    from ..access.gate import Gate
    from ..wire.command import Command


_T = TypeVar("_T")


class _User(msgspec.Struct, rename="camel"):
    username: str


class _Filter(msgspec.Struct, rename="camel"):
    filter: str = ""


class _Subject(msgspec.Struct, rename="camel"):
    subject: str
    resource: str | None = None


class _Filters(msgspec.Struct, rename="camel"):
    subject_filter: str = ""
    resource_filter: str = ""


class UserProcessor:
    """Shows the accounts as users and rules, and changes them."""

    def __init__(self, gate: Gate | None) -> None:
        self._gate = gate

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.user,
            RequestCode.AUTH_LIST_USER: self.users,
            RequestCode.AUTH_CREATE_ACL: self.put_acl,
            RequestCode.AUTH_UPDATE_ACL: self.put_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.acl,
            RequestCode.AUTH_LIST_ACL: self.acls,
        }

    # -- users

    async def create_user(self, call: Call) -> Command:
        """Adds an account."""
        name = parse(_User, call.request.fields).username
        change = _said(lambda: users.change_of_user(decode(UserInfo, call.request.body)))
        if change.secret is None:
            raise Refused(ResponseCode.NO_PERMISSION, "password can not be blank")
        if await self._form(name) is not None:
            raise Refused(ResponseCode.NO_PERMISSION, "The user is existed")
        await self._edit(lambda path: editing.add_account(path, name, change))
        return call.request.answer()

    async def update_user(self, call: Call) -> Command:
        """Changes the secret of an account, and whether it may administrate."""
        name = parse(_User, call.request.fields).username
        change = _said(lambda: users.change_of_user(decode(UserInfo, call.request.body)))
        if await self._form(name) is None:
            raise Refused(ResponseCode.NO_PERMISSION, "The user is not exist")
        await self._edit(lambda path: editing.change_account(path, name, change))
        return call.request.answer()

    async def delete_user(self, call: Call) -> Command:
        """Removes an account with its rules. One that is not there is no error, as in RocketMQ."""
        name = parse(_User, call.request.fields).username
        if await self._form(name) is not None:
            await self._edit(lambda path: editing.remove_account(path, name))
        return call.request.answer()

    async def user(self, call: Call) -> Command:
        """One user; no body if there is none."""
        form = await self._form(parse(_User, call.request.fields).username)
        return call.request.answer(body=b"" if form is None else _json(users.user_of(form)))

    async def users(self, call: Call) -> Command:
        """The users whose names have a text in them."""
        wanted = parse(_Filter, call.request.fields).filter
        found = [users.user_of(one) for one in await self._forms() if wanted in one.access_key]
        return call.request.answer(body=_json(found) if found else b"")

    # -- rules

    async def put_acl(self, call: Call) -> Command:
        """Adds rules, and replaces those for the same resources."""
        form = await self._subject(parse(_Subject, call.request.fields).subject)
        acl: AclInfo = decode(AclInfo, call.request.body)
        if not any(policy.entries for policy in acl.policies):
            raise Refused(ResponseCode.NO_PERMISSION, "The policies is empty.")
        await self._change(form, _said(lambda: users.change_of_acl(acl, form)))
        return call.request.answer()

    async def delete_acl(self, call: Call) -> Command:
        """Takes away the rule for a resource, or all rules."""
        header = parse(_Subject, call.request.fields)
        form = await self._subject(header.subject)
        await self._change(form, _said(lambda: users.change_without(header.resource or None)))
        return call.request.answer()

    async def acl(self, call: Call) -> Command:
        """The rules of one user."""
        form = await self._subject(parse(_Subject, call.request.fields).subject)
        return call.request.answer(body=_json(users.acl_of(form)))

    async def acls(self, call: Call) -> Command:
        """The rules of all users, by texts that their names and their resources have in them."""
        header = parse(_Filters, call.request.fields)
        found = [users.acl_of(one, header.resource_filter) for one in await self._forms()]
        found = [one for one in found if header.subject_filter in one["subject"]]
        found = [one for one in found if one["policies"]]
        return call.request.answer(body=_json(found) if found else b"")

    # -- the file

    async def _forms(self) -> list[Form]:
        if self._gate is None:
            why = "the broker asks for no accounts (aclEnable)"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        return await self._gate.forms()

    async def _form(self, name: str) -> Form | None:
        return next((one for one in await self._forms() if one.access_key == name), None)

    async def _subject(self, subject: str) -> Form:
        """The account of a subject. Raises Refused."""
        form = await self._form(_said(lambda: users.name_of(subject)))
        if form is None:
            raise Refused(ResponseCode.NO_PERMISSION, "The subject is not exist.")
        return form

    async def _change(self, form: Form, change: Change) -> None:
        await self._edit(lambda path: editing.change_account(path, form.access_key, change))

    async def _edit(self, edit: Callable[[Path], None]) -> None:
        """Changes the file, which is in force when this returns. Raises Refused."""
        if self._gate is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the broker asks for no accounts (aclEnable)")
        try:
            await self._gate.edit(edit)
        except BadAccounts as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
        except OSError as error:
            why = f"the broker cannot write its accounts ({error.strerror}): use `silo acl` there"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from error


def _said(make: Callable[[], _T]) -> _T:
    """What a request says. Raises Refused for what the file of accounts cannot say."""
    try:
        return make()
    except CannotSay as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
