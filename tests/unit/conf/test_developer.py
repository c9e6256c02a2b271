"""The defaults of `silo dev` are settings, and others win over them."""

from __future__ import annotations

from pathlib import Path

from silomq.conf import broker_settings, developer
from silomq.conf.settings import Remembered, Settings, load


def test_they_are_settings() -> None:
    settings = load(environ={}, defaults=developer.STORE)
    for name, value in developer.STORE.items():
        assert getattr(settings, name) == value
    assert settings.max_message_size == Settings().max_message_size
    broker = broker_settings.load(environ={}, defaults=developer.BROKER)
    for name, value in developer.BROKER.items():
        assert getattr(broker, name) == value


def test_others_win() -> None:
    made_with = {"mapped_file_size_commit_log": 1 << 25}

    def remembered(_: Path) -> Remembered:
        return Remembered(made_with, certain=True)

    settings = load(
        environ={"SILOMQ_MAX_TOPICS": "7"},
        overrides=["max_queues=70"],
        remembered=remembered,
        defaults=developer.STORE,
    )
    assert (settings.max_topics, settings.max_queues) == (7, 70)
    assert settings.mapped_file_size_commit_log == 1 << 25
