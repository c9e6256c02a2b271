"""Log lines: what they hold, where they go, and that they hurt nobody."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest

HEAD = 'from silomq.conf.logging import configure, get_logger\nconfigure("demo", "append", {})\n'
RSS_LIMIT_KIB = 40 * 1024


def run(body: str, *arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    code = setup + HEAD.format(", ".join(arguments) or '"info"') + "log = get_logger()\n" + body
    return subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True, timeout=30
    )


def on_a_terminal(body: str, **environ: str) -> str:
    master, slave = pty.openpty()
    code = HEAD.format('"info"') + "log = get_logger()\n" + body
    try:
        subprocess.run(
            [sys.executable, "-P", "-c", code],
            check=True,
            stderr=slave,
            env=os.environ | {"TERM": "xterm"} | environ,
            timeout=30,
        )
        return os.read(master, 65_536).decode()
    finally:
        os.close(slave)
        os.close(master)


def test_json_when_stderr_is_no_terminal() -> None:
    result = run('log.info("store recovered", files=3)')
    line = json.loads(result.stderr)
    assert list(line)[:6] == ["timestamp", "level", "store", "actor", "pid", "event"]
    assert (line["level"], line["store"], line["actor"]) == ("info", "demo", "append")
    assert (line["event"], line["files"]) == ("store recovered", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"])
    assert result.stdout == ""


def test_readable_on_a_terminal() -> None:
    text = on_a_terminal('log.info("store recovered", files=3)', NO_COLOR="1")
    assert re.search(r"Z \[info +\] store recovered +actor=append files=3 pid=\d+ store=demo", text)
    assert "\x1b" not in text
    assert "\x1b" in on_a_terminal('log.info("store recovered")')


@pytest.mark.parametrize(
    ("level", "events"), [("debug", "abcd"), ("info", "bcd"), ("warning", "cd"), ("error", "d")]
)
def test_lines_below_the_level_are_left_out(level: str, events: str) -> None:
    body = 'log.debug("a"); log.info("b"); log.warning("c"); log.error("d")'
    lines = run(body, f'"{level}"').stderr.splitlines()
    assert "".join(json.loads(line)["event"] for line in lines) == events


def test_a_forked_process_says_who_it_is() -> None:
    body = (
        "import os\n"
        "child = os.fork()\n"
        'if child == 0:\n    configure("demo", "flush", "info")\n'
        "else:\n    os.waitpid(child, 0)\n"
        'log.info("here", child=child)\n'
    )
    first, second = (json.loads(line) for line in run(body).stderr.splitlines())
    assert (first["actor"], second["actor"]) == ("flush", "append")
    assert first["pid"] == second["child"] != second["pid"]


def test_each_line_is_one_write() -> None:
    setup = (
        "import os\nwrite, calls = os.write, []\n"
        "os.write = lambda fd, data: calls.append((fd, data)) or write(fd, data)\n"
    )
    body = (
        'log.info("one", text="two\\nlines")\n'
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('three')\n"
        "assert [(fd, data.count(b'\\n'), data[-1:]) for fd, data in calls] == "
        "[(2, 1, b'\\n')] * 2\n"
    )
    error = json.loads(run(body, setup=setup).stderr.splitlines()[1])
    assert error["exception"].endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("fmt", ["json", "console"])
def test_any_value_can_be_logged(fmt: str) -> None:
    body = 'log.info("bad \\udcff name", b=b"\\xff", o=object, big=1 << 80, d={1: 2, (3,): 4})'
    result = run(body, '"info"', f'"{fmt}"')
    assert "\\udcff" in result.stderr
    assert str(1 << 80) in result.stderr
    if fmt == "json":
        assert json.loads(result.stderr)["event"] == "bad \udcff name"


def test_a_hostile_name_does_not_drive_a_terminal() -> None:
    text = run('log.info("x", topic="\\x1b[2J\\n[error] y")', '"info"', '"console"').stderr
    assert "\x1b" not in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("fmt", ["json", "console"])
def test_a_hostile_error_does_not_drive_a_terminal(fmt: str) -> None:
    """Tracebacks quote what came from outside, and logs are read on terminals later."""
    hostile = "\\x1b[2J\\x9b\\u202e\\x7f"
    body = (
        f'try:\n    raise ValueError("{hostile}")\n'
        f'except ValueError:\n    log.exception("{hostile}")'
    )
    text = run(body, '"info"', f'"{fmt}"').stderr
    assert "ValueError" in text
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


def test_a_closed_log_stops_nobody() -> None:
    assert run('import os; os.close(2); log.info("x"); print("alive")').stdout == "alive\n"


def test_logging_imports_little() -> None:
    body = (
        "import sys\nassert 'rich' not in sys.modules\n"
        "status = open('/proc/self/status').read()\n"
        "print(status.split('VmRSS:')[1].split()[0])\n"
        "import rich.console\n"
    )
    assert int(run(body, '"info"', '"console"').stdout) < RSS_LIMIT_KIB


CLOCK = (
    "import silomq.conf.logging as module\nnow = [100.0]\nmodule.time.monotonic = lambda: now[0]\n"
)


def test_an_event_that_repeats_is_counted_and_told_once() -> None:
    body = (
        CLOCK + "for i in range(500):\n    log.warning('bad packet', number=i)\n"
        "log.info('other'); log.error('bad packet', number=-1)\n"
        "now[0] += 9.9; module.tell_repeats()\nlog.info('not yet')\n"
        "now[0] += 0.2; module.tell_repeats()\n"
        "log.warning('bad packet', number=500)\n"
    )
    lines = [json.loads(line) for line in run(body).stderr.splitlines()]
    assert [line.get("number") for line in lines[:10]] == list(range(10))
    # Another event, and the same one at another level, are not held back.
    assert [line["event"] for line in lines[10:13]] == ["other", "bad packet", "not yet"]
    summary, last = lines[13:]
    assert (summary["event"], summary["level"], summary["repeated"]) == (
        "bad packet",
        "warning",
        490,
    )
    assert (summary["number"], last["number"]) == (499, 500)
    assert "repeated" not in last


@pytest.mark.parametrize("fmt", ["json", "console"])
def test_what_was_held_back_is_told_before_the_process_ends_or_logs_in_another_way(
    fmt: str,
) -> None:
    body = (
        "for i in range(30):\n    log.info('a')\n"
        f"configure('demo', 'append', 'info', '{fmt}')\n"
        "for i in range(31):\n    log.info('b')\n"
        "from silomq.conf.logging import tell_repeats\n"
        "tell_repeats(everything=True); tell_repeats(everything=True)\n"
    )
    lines = run(body, '"info"', f'"{fmt}"').stderr.splitlines()
    told = [line for line in lines if "repeated" in line]
    assert len(lines) == 22
    assert ["20" in told[0], "21" in told[1]] == [True, True]


def test_a_fork_does_not_tell_what_its_parent_has_counted() -> None:
    body = (
        CLOCK + "import os\nfor i in range(30):\n    log.info('a')\n"
        "if (child := os.fork()) == 0:\n"
        "    configure('demo', 'flush', 'info')\n    now[0] += 20; module.tell_repeats()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0); now[0] += 20; module.tell_repeats()\n"
    )
    lines = [json.loads(line) for line in run(body).stderr.splitlines()]
    assert [line["repeated"] for line in lines if "repeated" in line] == [20]


#: Names as a hostile client may choose them: line ends, terminal commands, and what looks like a
#: line or a field of a log.
HOSTILE = (
    *(
        "\n",
        "\r",
        "\x0b",
        "\x85",
        "\u2028",
        "\x00",
        "\x1b[2J",
        "\x9b2J",
        "\x1b]0;title\x07",
        "\u202e",
    ),
    *("\ufeff", "\udcff", "\x7f", '", "event": "store stopped', "x level=error event=fake"),
    *("\\n", "%s{0}"),
)


@pytest.mark.parametrize("fmt", ["json", "console"])
def test_no_name_makes_a_line_or_a_field(fmt: str) -> None:
    body = (
        f"hostile = {''.join(HOSTILE)!a}\n"
        f"for name in (*{HOSTILE!a}, hostile):\n    log = get_logger().bind()\n"
        "    log.info('told', topic=name, nested={name: [name]}, **{'key' + name: name})\n"
    )
    done = run(body, '"info"', f'"{fmt}"')
    # Ten lines of one event, and the rest is held back.
    lines = done.stderr.split("\n")
    assert (len(lines), lines[-1]) == (11, "")
    assert all(line.isprintable() for line in lines)
    if fmt == "json":
        for line, name in zip(lines[:10], HOSTILE, strict=False):
            found = json.loads(line)
            assert (found["event"], found["level"], found["topic"]) == ("told", "info", name)
            assert found["key" + name] == name
            assert len(found) == 9


def test_a_long_value_is_cut() -> None:
    body = "log.info('told', error='x' * 100_000)\n"
    line = json.loads(run(body).stderr)
    assert len(line["error"]) < 2100
    assert line["error"].endswith("... (100,000 characters)")
