"""The broker's configuration: shown, and changed while it runs."""

from __future__ import annotations

import json
import time
from typing import Final

from ...conf import broker_settings, schema
from ...conf.kinds import SettingError
from ...conf.rocketmq_names import rocketmq_texts
from ..link.listings import Listings
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.properties import encode_properties, parse_properties
from .tools import Tools

#: RocketMQ refuses these, whatever their value.
_BLACK_LIST: Final = frozenset(("brokerConfigPath", "rocketmqHome", "configBlackList"))
#: What RocketMQ's tools read besides: there is one broker of this name, and it takes messages.
_FIXED: Final = {"brokerId": "0", "brokerRole": "ASYNC_MASTER", "slaveReadEnable": "false"}


class ConfigurationAdmin(Tools):
    """The settings of the broker and of its store."""

    def __init__(self, parts: Parts, listings: Listings) -> None:
        super().__init__(parts, listings)
        self._version = 0
        self._changed_ms = 0

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_BROKER_CONFIG: self.show,
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
        }

    async def show(self, call: Call) -> Command:
        """All settings, those of the store included, as a text of lines NAME=VALUE."""
        ours = rocketmq_texts(broker_settings.kinds(), self._parts.settings)
        found = {**_FIXED, **await self._listings.settings(), **ours}
        version = {"counter": self._version, "stateVersion": 0, "timestamp": self._changed_ms}
        fields = {"version": json.dumps(version, separators=(",", ":"))}
        return call.request.answer(fields=fields, body=encode_properties(found))

    async def change(self, call: Call) -> Command:
        """Changes settings until the broker ends: all that are named, or none of them."""
        changes = await self._changes(parse_properties(call.request.body))
        if not changes:
            return call.request.answer()
        try:
            broker_settings.change(self._parts.settings, changes)
        except SettingError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        self._version += 1
        self._changed_ms = time.time_ns() // 1_000_000
        self._parts.logger.info("settings were changed, until the broker ends", **changes)
        self._parts.topics.forget()
        if "broker_permission" in changes:
            self._parts.topic_made()
        return call.request.answer()

    async def _changes(self, wanted: dict[str, str]) -> dict[str, str]:
        """The settings of the broker that get another value, by our names. Raises Refused."""
        if _BLACK_LIST & wanted.keys():
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        kinds = broker_settings.kinds()
        names = {alias: name for name, kind in kinds.items() for alias in (name, *kind.rocketmq)}
        now = rocketmq_texts(kinds, self._parts.settings)
        of_store = {
            alias: name for name, kind in schema.kinds().items() for alias in (name, *kind.rocketmq)
        }
        stores = None
        changes: dict[str, str] = {}
        for given, value in wanted.items():
            name = names.get(given)
            if name is None and given in of_store:
                stores = stores or await self._listings.settings()
                alias = (schema.kinds()[of_store[given]].rocketmq or (of_store[given],))[0]
                if stores[alias] != value:
                    raise _restart(given, "the store")
            if name is None or now[(kinds[name].rocketmq or (name,))[0]] == value:
                continue
            if name not in broker_settings.CHANGEABLE:
                raise _restart(given, "the broker")
            changes[name] = value
        return changes


def _restart(name: str, of: str) -> Refused:
    why = f"{name} cannot change while {of} runs: set it where {of} is started, and restart it"
    return Refused(ResponseCode.SYSTEM_ERROR, why)
