"""The settings of groups in RocketMQ's file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from silomq.actors.registry.group_configs import GroupConfigs
from silomq.store.config import offsets
from silomq.store.config.offsets import GroupConfig

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.store.disk.files import Folder


@pytest.fixture
def configs(tmp_path: Path) -> GroupConfigs:
    folder = cast("Folder", SimpleNamespace(path=str(tmp_path)))
    return GroupConfigs(folder, SimpleNamespace(error=pytest.fail))


def saved(configs: GroupConfigs) -> dict[str, dict[str, int]]:
    return offsets.load_groups(configs.path)[0].forbidden


def test_pages_have_each_group_once(configs: GroupConfigs) -> None:
    names = [f"g{number:04}" for number in range(1001)]
    for name in reversed(names):
        configs.known[name] = GroupConfig(name)
    found: list[str] = []
    more = True
    while more:
        page, more = configs.page(max(found, default=""), "")
        found += page
    assert found == names


def test_one_group(configs: GroupConfigs) -> None:
    configs.change("g", {"retry_max_times": 3})
    page, more = configs.page("", "g")
    assert page["g"]["retryMaxTimes"] == 3
    assert (list(page), more) == (["g"], False)
    assert configs.page("", "none") == ({}, False)


def test_a_topic_is_forbidden_and_allowed_again(configs: GroupConfigs) -> None:
    configs.get("g")
    configs.forbid("g", "t", readable=False)
    configs.forbid("g", "u", readable=False)
    assert configs.forbidden("g") == ["t", "u"]
    assert saved(configs) == {"g": {"t": 4, "u": 4}}
    configs.forbid("g", "t", readable=True)
    assert configs.forbidden("g") == ["u"]
    configs.forbid("g", "u", readable=True)
    configs.forbid("g", "u", readable=True)
    assert (configs.forbidden("g"), saved(configs)) == ([], {})


def test_other_bits_of_rocketmq_stay(configs: GroupConfigs) -> None:
    configs.known.forbidden = {"g": {"t": 2}}
    assert configs.forbidden("g") == []
    configs.forbid("g", "t", readable=False)
    configs.forbid("g", "t", readable=True)
    assert saved(configs) == {"g": {"t": 2}}


def test_what_cannot_be_saved_is_not_forbidden(
    configs: GroupConfigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("full")

    monkeypatch.setattr(offsets, "save_groups", fail)
    with pytest.raises(OSError, match="full"):
        configs.forbid("g", "t", readable=False)
    assert configs.forbidden("g") == []
