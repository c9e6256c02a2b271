"""Settings: every source, every refusal, and the annotated file."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import silomq.conf
from silomq.conf import annotate
from silomq.conf.relations import RECORD_OVERHEAD
from silomq.conf.schema import kinds
from silomq.conf.settings import (
    FlushDiskType,
    LogLevel,
    SettingError,
    Settings,
    describe,
    load,
    load_with_origins,
)
from silomq.store.record.format import encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import MAX_PROPERTIES_BYTES

#: The sizes of the golden stores (reference/golden): far below RocketMQ's defaults, and legal.
SMALL = {
    "mapped_file_size_commit_log": 65_536,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
    "max_message_size": 16_384,
}


def toml(folder: Path, text: str) -> Path:
    path = folder / "silomq.toml"
    path.write_text(text)
    return path


def refusal(**settings: Any) -> SettingError:
    with pytest.raises(SettingError) as caught:
        Settings(**settings)
    return caught.value


class TestDefaults:
    def test_are_rocketmqs(self) -> None:
        settings = load(environ={})
        assert settings.mapped_file_size_commit_log == 2**30
        assert settings.mapped_file_size_consume_queue == 300_000 * 20
        assert settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH
        assert not settings.sync_flush
        assert settings.delete_when == "04"
        assert settings.store_path == Path("store")

    def test_are_parsed_to_themselves(self) -> None:
        defaults = Settings()
        for name, kind in kinds().items():
            assert kind.parse(getattr(defaults, name)) == getattr(defaults, name)

    def test_every_setting_is_described(self) -> None:
        for setting in describe():
            assert setting.unit, setting.name
            assert setting.range, setting.name
            assert setting.reason.endswith("."), setting.name

    def test_names_end_in_their_unit(self) -> None:
        for setting in describe():
            if setting.unit in {"ms", "us", "h"}:
                assert setting.name.endswith(f"_{setting.unit}")

    def test_no_name_means_two_things(self) -> None:
        names = [s.name for s in describe()] + [n for s in describe() for n in s.rocketmq]
        assert len(names) == len(set(names))


class TestDelayLevels:
    def test_are_written_as_in_rocketmq(self) -> None:
        text = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
        assert kinds()["message_delay_level"].show(Settings().message_delay_level) == f'"{text}"'
        assert load(environ={}, overrides=[f"messageDelayLevel={text}"]) == load(environ={})
        found = load(environ={}, overrides=["messageDelayLevel= 90s  2d 1h "]).message_delay_level
        assert found == (90_000, 2 * 86_400_000, 3_600_000)
        assert kinds()["message_delay_level"].show(found) == '"90s 2d 1h"'

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "1",
            "s",
            "1s,2s",
            "0s",
            "-1s",
            "1.5s",
            "1w",
            "1S",
            "3651d",
            "1s " * 49,
            "\u0661s",
        ],
    )
    def test_bad_text_is_refused_and_told_what_is_allowed(self, text: str) -> None:
        with pytest.raises(SettingError, match=r"1 to 48 times from .1s. to .3650d.") as caught:
            load(environ={}, overrides=[f"messageDelayLevel={text}"])
        assert caught.value.key == "messageDelayLevel"
        assert caught.value.origin == "--set"

    @given(st.lists(st.integers(1, 315_360_000), min_size=1, max_size=48))
    def test_what_is_shown_is_read_back(self, seconds: list[int]) -> None:
        kind = kinds()["message_delay_level"]
        levels = tuple(1000 * s for s in seconds)
        assert kind.parse(kind.show(levels).strip('"')) == kind.parse(levels) == levels


class TestSources:
    def test_each_outranks_the_one_before(self, tmp_path: Path) -> None:
        path = toml(tmp_path, "max_topics = 1\nmax_queues = 1\nmax_sessions = 1\n")
        settings, origins = load_with_origins(
            path,
            environ={"SILOMQ_MAX_QUEUES": "2", "SILOMQ_MAX_SESSIONS": "2", "PATH": "x"},
            overrides=["max_sessions=3"],
        )
        assert (settings.max_topics, settings.max_queues, settings.max_sessions) == (1, 2, 3)
        assert origins["max_topics"] == str(path)
        assert origins["max_queues"] == "environment SILOMQ_MAX_QUEUES"
        assert origins["max_sessions"] == "--set"
        assert origins["store_port"] == "default"
        assert list(origins) == list(kinds())

    def test_rocketmqs_names_and_texts(self, tmp_path: Path) -> None:
        path = toml(tmp_path, 'flushDiskType = "SYNC_FLUSH"\nmapedFileSizeCommitLog = "64MiB"\n')
        settings = load(
            path, environ={}, overrides=["flushIntervalCommitLog=1s", "deleteWhen=04;16"]
        )
        assert settings.sync_flush
        assert settings.mapped_file_size_commit_log == 64 * 2**20
        assert settings.flush_interval_commit_log_ms == 1000
        assert settings.delete_when == "04;16"

    def test_the_last_override_wins(self) -> None:
        settings = load(environ={}, overrides=["max_topics=1", "max_topics = 2"])
        assert settings.max_topics == 2

    def test_the_variables_of_tests_are_no_settings(self) -> None:
        load(environ={"SILOMQ_FAULT_BUILD": "x", "SILOMQ_LONG": "1", "SILOMQ_CONFIG": "x"})

    def test_the_environment_is_the_process_by_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SILOMQ_LOG_LEVEL", "debug")
        assert load().log_level is LogLevel.DEBUG

    def test_a_missing_file_is_an_oserror(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "none.toml", environ={})

    @pytest.mark.parametrize("text", ["max_topics = ", "a = 1\na = 2\n", 'x = "\xff"'])
    def test_a_bad_file_is_named(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "silomq.toml"
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(SettingError, match=r"silomq\.toml.*TOML"):
            load(path, environ={})


class TestValues:
    @pytest.mark.parametrize(
        ("name", "raw", "value"),
        [
            ("ring_size", "8MiB", 8 << 20),
            ("ring_size", " 64 KiB ", 65_536),
            ("ring_size", "1_048_576", 1 << 20),
            ("ring_size", "1048576B", 1 << 20),
            ("stop_timeout_ms", "500ms", 500),
            ("stop_timeout_ms", "2min", 120_000),
            ("append_spin_us", "1ms", 1000),
            ("file_reserved_time_h", "3d", 72),
            ("warm_mapped_file_enable", "Off", False),
            ("warm_mapped_file_enable", "1", True),
            ("store_host", "::1", "::1"),
            ("store_path", "/var/lib/silomq", Path("/var/lib/silomq")),
            ("mapped_file_size_consume_queue", "1990", 2000),
            ("socket_group", "", ""),
        ],
    )
    def test_texts_are_understood(self, name: str, raw: str, value: object) -> None:
        assert getattr(load(environ={}, overrides=[f"{name}={raw}"]), name) == value

    @pytest.mark.parametrize(
        ("name", "raw"),
        [
            ("ring_size", "8 MB"),
            ("ring_size", "-1"),
            ("ring_size", "65537"),
            ("ring_size", "8.5MiB"),
            ("stop_timeout_ms", "500us"),
            ("stop_timeout_ms", "5 fortnights"),
            ("append_spin_us", "10001"),
            ("max_topics", "7KiB"),
            ("max_topics", ""),
            ("file_reserved_time_h", "90min"),
            ("warm_mapped_file_enable", "maybe"),
            ("store_host", "localhost"),
            ("delete_when", "24"),
            ("delete_when", "04;"),
            ("flush_disk_type", "sync_flush"),
            ("socket_group", "a b"),
            ("store_path", " "),
            ("heartbeat_timeout_ms", "1000"),
        ],
    )
    def test_a_refusal_names_key_value_and_what_is_allowed(self, name: str, raw: str) -> None:
        with pytest.raises(SettingError) as caught:
            load(environ={f"SILOMQ_{name.upper()}": raw})
        error = caught.value
        assert (error.key, error.value, error.allowed) == (name, raw, kinds()[name].range)
        assert f'{name} = "{raw}" (from environment SILOMQ_{name.upper()})' in str(error)
        assert kinds()[name].range in str(error)

    @pytest.mark.parametrize(("name", "raw"), [("max_topics", True), ("max_topics", 1.0)])
    def test_toml_types_count(self, name: str, raw: object) -> None:
        assert refusal(**{name: raw}).key == name

    def test_escapes_do_not_reach_a_terminal(self) -> None:
        with pytest.raises(SettingError) as caught:
            load(environ={}, overrides=["delete_when=\x1b[31m"])
        assert "\x1b" not in str(caught.value)

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Settings().max_topics = 1  # type: ignore[misc]

    def test_a_copy_is_checked_too(self) -> None:
        with pytest.raises(SettingError):
            msgspec.structs.replace(Settings(), max_topics=0)

    @given(st.sampled_from(list(kinds())), st.text() | st.integers() | st.booleans() | st.floats())
    def test_anything_is_a_value_or_a_refusal(self, name: str, raw: object) -> None:
        try:
            value = kinds()[name].parse(raw)
        except ValueError:
            return
        assert kinds()[name].parse(value) == value


class TestNames:
    @pytest.mark.parametrize(
        ("key", "hint"),
        [
            ("flush_disk_typ", "flush_disk_type"),
            ("flushDiskTyp", "flushDiskType"),
            ("mappedFileSizeComitLog", "mappedFileSizeCommitLog"),
            ("zzz", "silomq.toml lists all settings"),
        ],
    )
    def test_unknown_names_get_a_hint(self, tmp_path: Path, key: str, hint: str) -> None:
        with pytest.raises(SettingError) as caught:
            load(toml(tmp_path, f"{key} = 1"), environ={})
        assert caught.value.key == key
        assert hint in caught.value.allowed
        assert caught.value.origin == str(tmp_path / "silomq.toml")

    @pytest.mark.parametrize("key", ["SILOMQ_FLUSH_DISKTYPE", "SILOMQ_flush_disk_type"])
    def test_unknown_variables_too(self, key: str) -> None:
        with pytest.raises(SettingError, match="did you mean SILOMQ_FLUSH_DISK_TYPE"):
            load(environ={key: "SYNC_FLUSH"})

    def test_a_setting_twice_in_a_file(self, tmp_path: Path) -> None:
        path = toml(tmp_path, 'flushDiskType = "SYNC_FLUSH"\nflush_disk_type = "ASYNC_FLUSH"\n')
        with pytest.raises(SettingError, match="given twice"):
            load(path, environ={})

    def test_an_override_without_a_value(self) -> None:
        with pytest.raises(SettingError, match="NAME=VALUE"):
            load(environ={}, overrides=["max_topics"])

    def test_unknown_keywords_are_refused(self) -> None:
        with pytest.raises(TypeError):
            Settings(max_topic=1)  # type: ignore[call-arg]


class TestRelations:
    def test_golden_sizes_are_legal(self) -> None:
        settings = Settings(**SMALL)  # type: ignore[arg-type]
        assert settings.mapped_file_size_consume_queue == 2000

    def test_the_largest_record_fits_in_a_file(self) -> None:
        room = 65_536 - 8 - RECORD_OVERHEAD
        Settings(**SMALL | {"max_message_size": room})  # type: ignore[arg-type]
        error = refusal(**SMALL | {"max_message_size": room + 1})
        assert error.key == "max_message_size"
        assert str(room) in error.allowed

    def test_the_overhead_is_that_of_the_largest_record(self) -> None:
        host = Host(bytes(16), 0)
        record = encode_record(
            topic=b"%RETRY%" + b"t" * 248,
            body=b"",
            properties=b"p" * MAX_PROPERTIES_BYTES,
            born_host=host,
            store_host=host,
        )
        assert len(record) == RECORD_OVERHEAD

    def test_the_origin_is_named_where_there_is_one(self) -> None:
        with pytest.raises(SettingError, match=r"max_message_size = 2097152 \(from --set\)"):
            load(environ={}, overrides=["mapped_file_size_commit_log=64KiB", "maxMessageSize=2MiB"])

    def test_the_default_gives_way_to_small_files(self) -> None:
        small = load(environ={}, overrides=["mapped_file_size_commit_log=64KiB"])
        assert small.max_message_size == 65_536 - 8 - RECORD_OVERHEAD
        assert load(environ={}).max_message_size == 4 << 20

    @pytest.mark.parametrize(
        ("key", "settings"),
        [
            ("max_index_num", {"max_index_num": 107_374_182}),
            ("ring_size", {"ring_size": 2**29}),
            ("disk_space_clean_forcibly_ratio", {"disk_space_warning_level_ratio": 84}),
            (
                "transient_store_pool_enable",
                {"transient_store_pool_enable": True, "flush_disk_type": "SYNC_FLUSH"},
            ),
        ],
    )
    def test_what_does_not_go_together(self, key: str, settings: dict[str, Any]) -> None:
        assert refusal(**settings).key == key


class TestFile:
    def installed(self) -> Path:
        return Path(silomq.conf.__path__[0]) / "silomq.toml"

    def test_is_what_is_generated(self) -> None:
        command = [sys.executable, "-P", "-m", "silomq.conf.annotate"]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        assert self.installed().read_text() == run.stdout == annotate.text()

    def test_changes_nothing(self) -> None:
        assert tomllib.loads(self.installed().read_text()) == {}

    def test_holds_the_defaults(self, tmp_path: Path) -> None:
        lines = self.installed().read_text().splitlines()
        settings = [line[1:] for line in lines if line.startswith("#") and line[1:2].isalpha()]
        assert len(settings) == len(kinds())
        assert load(toml(tmp_path, "\n".join(settings)), environ={}) == Settings()

    def test_headings_stand_before_settings(self) -> None:
        assert set(annotate.HEADINGS) <= set(kinds())
