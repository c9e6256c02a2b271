"""One list of settings for a store and its broker."""

from __future__ import annotations

import pytest

from silomq.conf.kinds import SettingError
from silomq.conf.shared_overrides import split


def test_each_setting_goes_where_it_is_known() -> None:
    both = ["defaultTopicQueueNums=3", "auto_create_topic_enable=false"]
    store, broker = split(["maxMessageSize = 1000", "brokerName=a", *both])
    assert store == ["maxMessageSize = 1000", *both]
    assert broker == ["brokerName=a", *both]


@pytest.mark.parametrize(
    ("text", "hint"), [("brokerNam=a", "brokerName"), ("max_topic=5", "max_topics"), ("=", "lists")]
)
def test_an_unknown_name_gets_a_hint_of_both(text: str, hint: str) -> None:
    with pytest.raises(SettingError, match=hint):
        split([text])
