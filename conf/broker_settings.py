"""The settings of a broker, and where they come from: as those of a store (`settings.py`).

Names are those of RocketMQ's `BrokerConfig` in Python spelling. Variables begin with SILOMQ_BROKER_
and the store's own settings stay with the store: a broker asks it for them.
"""

from __future__ import annotations

import enum
import functools
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from .kinds import KIB, MIB, Choice, Duration, Kind, Number, SettingError, Size, Switch, Text
from .schema import kinds_of
from .settings import BROKER_PREFIX, Description, described
from .sources import Sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_NAME: Final = r"[A-Za-z0-9_%|-]{1,127}"
_IS_NAME: Final = "1 to 127 letters, digits and the characters % | _ -"
_SERVERS: Final = r"|[^;\s]+:[0-9]{1,5}(?:;[^;\s]+:[0-9]{1,5})*"
_FRAME: Final = 16 * MIB
_PATH: Final = r"[^\x00]{0,4095}"
_IS_PATH: Final = "a path, or empty"


class TlsMode(enum.StrEnum):
    """Which connections are served: without TLS, both kinds, or those with TLS."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class BrokerFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one broker, each with its kind and its default."""

    broker_name: Annotated[
        str,
        Text(
            _NAME,
            _IS_NAME,
            "The name under which clients and name servers know this broker.",
            "brokerName",
        ),
    ] = "broker-a"
    broker_cluster_name: Annotated[
        str,
        Text(_NAME, _IS_NAME, "The cluster that this broker belongs to.", "brokerClusterName"),
    ] = "DefaultCluster"
    namesrv_addr: Annotated[
        str,
        Text(
            _SERVERS,
            "HOST:PORT, several with ; between them, or empty",
            "Name servers with which the broker registers, beside answering for itself.",
            "namesrvAddr",
        ),
    ] = ""
    region_id: Annotated[
        str,
        Text(_NAME, _IS_NAME, "Clients put it into their traces.", "regionId"),
    ] = "DefaultRegion"
    trace_on: Annotated[
        bool, Switch("Whether clients that trace their messages do so here.", "traceOn")
    ] = True
    auto_create_topic_enable: Annotated[
        bool,
        Switch(
            "A message to an unknown topic makes it, with as many queues as the client asks for.",
            "autoCreateTopicEnable",
        ),
    ] = True
    auto_create_subscription_group: Annotated[
        bool,
        Switch("A consumer of an unknown group makes it.", "autoCreateSubscriptionGroup"),
    ] = True
    default_topic_queue_nums: Annotated[
        int,
        Number(
            "queues",
            1,
            1024,
            "RocketMQ's default. The most queues of a topic that a message makes.",
            "defaultTopicQueueNums",
        ),
    ] = 8
    broker_permission: Annotated[
        int,
        Number(
            "perm",
            0,
            6,
            "RocketMQ's default: clients may write (2) and read (4). Without one of them routes "
            "say so for every topic.",
            "brokerPermission",
            multiple=2,
        ),
    ] = 6
    rebalance_lock_max_live_time_ms: Annotated[
        int,
        Duration(
            "ms",
            1000,
            3_600_000,
            "RocketMQ's default. A lock of a queue that its orderly consumer does not renew ends.",
            "lockMaxLiveTime",
            "rocketmq.broker.rebalance.lockMaxLiveTime",
        ),
    ] = 60_000
    enable_property_filter: Annotated[
        bool,
        Switch(
            "RocketMQ's default. Whether consumers may filter by SQL92, which reads each message.",
            "enablePropertyFilter",
        ),
    ] = False
    recall_message_enable: Annotated[
        bool,
        Switch(
            "Whether producers may recall a message that waits for its time.", "recallMessageEnable"
        ),
    ] = True
    reject_transaction_message: Annotated[
        bool,
        Switch("Whether transactions are refused.", "rejectTransactionMessage"),
    ] = False
    store_reply_message_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. Replies to requests of producers are stored too, in "
            "<broker_cluster_name>_REPLY_TOPIC.",
            "storeReplyMessageEnable",
        ),
    ] = True
    long_polling_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. A pull waits for a message as long as its client allows.",
            "longPollingEnable",
        ),
    ] = True
    short_polling_time_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's default. How long a pull waits without long polling.",
            "shortPollingTimeMills",
        ),
    ] = 1000
    server_channel_max_idle_time_s: Annotated[
        int,
        Duration(
            "s",
            1,
            86_400,
            "RocketMQ's default. A connection on which nothing comes or goes is closed.",
            "serverChannelMaxIdleTimeSeconds",
        ),
    ] = 120
    frame_max_length: Annotated[
        int,
        Size(64 * KIB, 1024 * MIB, "RocketMQ's limit of a request.", "frameMaxLength"),
    ] = _FRAME
    max_connections: Annotated[
        int,
        Number("connections", 1, 1_000_000, "More are closed as they come."),
    ] = 20_000
    max_unsent_size: Annotated[
        int,
        Size(
            64 * KIB,
            1024 * MIB,
            "A peer that leaves so many bytes of its answers unread is read no further.",
        ),
    ] = 4 * MIB
    max_unfinished_size: Annotated[
        int,
        Size(
            MIB,
            65_536 * MIB,
            "Requests of all peers that have not come whole may take so much memory, and so "
            "may those that wait for the store.",
        ),
    ] = 256 * MIB

    tls_server_mode: Annotated[
        TlsMode,
        Choice(
            TlsMode,
            "RocketMQ's default: TLS and plain connections at one port, by their first byte. TLS "
            "needs a certificate.",
            "tls.server.mode",
        ),
    ] = TlsMode.PERMISSIVE
    tls_server_cert_path: Annotated[
        str,
        Text(
            _PATH,
            _IS_PATH,
            "The certificate and its chain, PEM. Empty: no TLS.",
            "tls.server.certPath",
        ),
    ] = ""
    tls_server_key_path: Annotated[
        str,
        Text(
            _PATH, _IS_PATH, "The certificate's key, PEM, without a password.", "tls.server.keyPath"
        ),
    ] = ""
    tls_server_trust_cert_path: Annotated[
        str,
        Text(
            _PATH,
            _IS_PATH,
            "Clients must show a certificate that one of these has signed. Empty: they need none.",
            "tls.server.trustCertPath",
        ),
    ] = ""

    acl_enable: Annotated[
        bool,
        Switch(
            "Only requests that an account of acl_file has signed are served, and only what it may "
            "do. RocketMQ 4 needs no other setting; this means the two that follow.",
            "aclEnable",
        ),
    ] = False
    authentication_enabled: Annotated[
        bool,
        Switch(
            "Requests must be signed by an account of acl_file (RocketMQ 5).",
            "authenticationEnabled",
        ),
    ] = False
    authorization_enabled: Annotated[
        bool,
        Switch(
            "An account may do what acl_file says (RocketMQ 5). It needs authentication_enabled.",
            "authorizationEnabled",
        ),
    ] = False
    acl_file: Annotated[
        str,
        Text(
            _PATH,
            _IS_PATH,
            "The accounts: RocketMQ's plain_acl.yml. It is read again when it changes.",
            "rocketmq.acl.plain.file",
        ),
    ] = ""


@functools.cache
def kinds() -> dict[str, Kind]:
    """The kind of each setting by its name, in the order of the fields."""
    return kinds_of(BrokerFields)


class BrokerSettings(BrokerFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one broker. Raises SettingError for a value that is not allowed."""

    def __post_init__(self) -> None:
        for name, kind in kinds().items():
            value = getattr(self, name)
            try:
                kind.parse(value)
            except ValueError:
                raise SettingError(name, value, kind.range) from None
        for address in self.name_servers:
            if not 0 < int(address.rpartition(":")[2]) < 65_536:
                why = f"a port is 1 to 65535: {address}"
                raise SettingError("namesrv_addr", self.namesrv_addr, why)
        if bool(self.tls_server_cert_path) != bool(self.tls_server_key_path):
            why = "a certificate needs its key: set tls_server_cert_path and tls_server_key_path"
            raise SettingError("tls_server_cert_path", self.tls_server_cert_path, why)
        if self.tls_server_mode == TlsMode.ENFORCING and not self.tls_server_cert_path:
            why = "it needs tls_server_cert_path and tls_server_key_path"
            raise SettingError("tls_server_mode", self.tls_server_mode.value, why)
        if self.authenticates and not self.acl_file:
            why = "accounts are asked for (acl_enable, authentication_enabled): name their file"
            raise SettingError("acl_file", self.acl_file, why)
        if self.authorizes and not self.authenticates:
            why = "who may do what needs to know who asks: set authentication_enabled too"
            raise SettingError("authorization_enabled", self.authorization_enabled, why)

    @property
    def authenticates(self) -> bool:
        """Whether requests must be signed."""
        return self.acl_enable or self.authentication_enabled

    @property
    def authorizes(self) -> bool:
        """Whether an account may do only what is said of it."""
        return self.acl_enable or self.authorization_enabled

    @property
    def knows_clients(self) -> bool:
        """Whether nobody is served who has no account, or no certificate that is trusted."""
        return self.authenticates or (
            self.tls_server_mode == TlsMode.ENFORCING and bool(self.tls_server_trust_cert_path)
        )

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses in `namesrv_addr`."""
        return tuple(address for address in self.namesrv_addr.split(";") if address)


#: The settings that may change while a broker runs. Others are read once, when it starts.
CHANGEABLE: Final = frozenset(
    (
        "auto_create_topic_enable",
        "auto_create_subscription_group",
        "broker_permission",
        "default_topic_queue_nums",
        "enable_property_filter",
        "recall_message_enable",
        "short_polling_time_ms",
        "server_channel_max_idle_time_s",
        "max_connections",
    )
)


def change(settings: BrokerSettings, changes: Mapping[str, Any]) -> None:
    """Gives a running broker's settings other values: all parts of the broker have the same object.
    Raises SettingError, and then changes nothing.
    """
    assert changes.keys() <= CHANGEABLE
    known = kinds()
    values = {name: getattr(settings, name) for name in known}
    for name, value in changes.items():
        try:
            values[name] = known[name].parse(value)
        except ValueError:
            raise SettingError(name, value, known[name].range) from None
    after = BrokerSettings(**values)
    for name in changes:
        msgspec.structs.force_setattr(settings, name, getattr(after, name))


def sources() -> Sources:
    """Where a broker's settings come from."""
    return Sources(kinds(), BROKER_PREFIX, lambda _: True, "silomq-broker.toml")


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> BrokerSettings:
    """The settings from the TOML file at `path`, the environment and `overrides`. `defaults`
    replace those of the table. Raises SettingError, and OSError when the file cannot be read.
    """
    found = sources()
    values: dict[str, Any] = dict(defaults or {})
    for source in (
        found.file(path),
        found.environment(os.environ if environ is None else environ),
        found.overrides(overrides),
    ):
        values |= {name: value for name, value, _ in source}
    return BrokerSettings(**values)


def describe() -> list[Description]:
    """All settings, in the order of the annotated file."""
    return described(kinds(), BrokerSettings())
