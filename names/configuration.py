"""The configuration of a name server: shown, and changed while it runs."""

from __future__ import annotations

from typing import Final

from ..broker.wire.headers import BadHeader

#: RocketMQ refuses these, whatever their value.
BLACK_LIST: Final = frozenset(("configBlackList", "configStorePath", "kvConfigPath"))
_ORDERED: Final = "orderMessageEnable"
#: What this name server does as RocketMQ's does with these settings.
_FIXED: Final = {
    "clusterTest": "false",
    "deleteTopicWithBrokerRegistration": "false",
    "enableControllerInNamesrv": "false",
    "enableTopicList": "true",
    "enableAllTopicList": "true",
    "notifyMinBrokerIdChanged": "false",
    "returnOrderTopicConfigToBroker": "true",
    "scanNotActiveBrokerInterval": "5000",
    "serverChannelMaxIdleTimeSeconds": "120",
    "supportActingMaster": "false",
}


class Configuration:
    """The settings. `ordered_topics`: routes name the queues of ordered topics."""

    def __init__(self, *, ordered_topics: bool) -> None:
        self.ordered_topics = ordered_topics

    def settings(self) -> dict[str, str]:
        """All settings under RocketMQ's names."""
        return {**_FIXED, _ORDERED: str(self.ordered_topics).lower()}

    def change(self, wanted: dict[str, str]) -> None:
        """Changes what may change until the name server ends. Settings that it does not have are
        ignored, as in RocketMQ. Raises BadHeader.
        """
        value = wanted.get(_ORDERED)
        if value not in (None, "true", "false"):
            raise BadHeader(f"{_ORDERED} = {value[:100]!a} is not allowed: true or false")
        for name, now in _FIXED.items():
            if wanted.get(name, now) != now:
                raise BadHeader(f"{name} cannot change: it is {now} in this name server")
        if value is not None:
            self.ordered_topics = value == "true"
