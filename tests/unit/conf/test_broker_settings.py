"""The settings of a broker: where they come from, and which are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.conf.broker_settings import BrokerSettings, TlsMode, describe, load
from silomq.conf.kinds import SettingError

if TYPE_CHECKING:
    from pathlib import Path


def test_sources_and_their_order(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('brokerName = "file"\ndefaultTopicQueueNums = 3\ntrace_on = false\n')
    environ = {"SILOMQ_BROKER_BROKER_NAME": "environment", "SILOMQ_STORE_PORT": "1"}
    found = load(file, environ=environ, overrides=["default_topic_queue_nums=5"])
    assert (found.broker_name, found.default_topic_queue_nums) == ("environment", 5)
    assert not found.trace_on
    assert load(environ={}) == BrokerSettings()


@pytest.mark.parametrize(
    "override",
    [
        *("nonsense=1", "brokerName", "brokerName=", "brokerName=a b", "brokerName=a\nb"),
        *("namesrvAddr=nohost", "namesrvAddr=a:70000", "namesrvAddr=a:0", "namesrvAddr=a:1;;b:2"),
        *("default_topic_queue_nums=0", "default_topic_queue_nums=x", "max_connections=-1"),
        *("tls.server.mode=maybe", "tls.server.mode=enforcing", "tls.server.certPath=/only/one"),
        *("aclEnable=true", "authenticationEnabled=true", "authorizationEnabled=true"),
        *("frame_max_length=1", "server_channel_max_idle_time_s=0", "trace_on=2"),
    ],
)
def test_what_is_refused(override: str) -> None:
    with pytest.raises(SettingError) as error:
        load(environ={}, overrides=[override])
    assert "\n" not in str(error.value)


def test_name_servers() -> None:
    found = load(environ={}, overrides=["namesrvAddr=a:1;[::1]:2"])
    assert found.name_servers == ("a:1", "[::1]:2")
    assert BrokerSettings().name_servers == ()
    assert BrokerSettings().tls_server_mode == TlsMode.PERMISSIVE


@pytest.mark.parametrize(
    ("overrides", "authenticates", "authorizes"),
    [
        ([], False, False),
        (["aclEnable=true"], True, True),
        (["authenticationEnabled=true"], True, False),
        (["authenticationEnabled=true", "authorizationEnabled=true"], True, True),
    ],
)
def test_accounts_by_the_names_of_rocketmq(
    overrides: list[str], *, authenticates: bool, authorizes: bool
) -> None:
    found = load(environ={}, overrides=[*overrides, "rocketmq.acl.plain.file=plain_acl.yml"])
    assert (found.authenticates, found.authorizes) == (authenticates, authorizes)
    assert found.knows_clients == authenticates
    assert found.acl_file == "plain_acl.yml"


def test_client_certificates_make_clients_known() -> None:
    own = ["tls.server.certPath=c", "tls.server.keyPath=k"]
    enforcing, trusting = "tls.server.mode=enforcing", "tls.server.trustCertPath=t"
    for more, known in (([enforcing], False), ([trusting], False), ([enforcing, trusting], True)):
        assert load(environ={}, overrides=[*own, *more]).knows_clients == known


def test_every_setting_is_described() -> None:
    for one in describe():
        assert one.reason.endswith("."), one.name
        assert one.range, one.name
