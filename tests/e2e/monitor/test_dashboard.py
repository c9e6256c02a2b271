"""The dashboard for Grafana: its queries ask for what the exporter tells, and run in Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import silo
from support.harness import StoreProcess, eventually

from silomq import Admin, GroupConsumer, Producer
from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = re.compile(r"\bsilomq_[a-z0-9_]+")
#: Panels of what this test has none of: they are empty here.
EMPTY = ("silomq_broker_", "silomq_flush_error")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(silo("metrics", "--dashboard").stdout)
    return found


def queries() -> list[str]:
    """All queries of its panels, with values for Grafana's variables."""
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    assert all(panel["targets"] and panel["title"] and panel["description"] for panel in panels)
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(found) > 40
    texts = [one.replace("$__rate_interval", "20s").replace("$instance", ".*") for one in found]
    assert not any("$" in text for text in texts)
    return texts


def told(store: Path) -> set[str]:
    """The names of all samples that the exporter's output has or announces."""
    text = silo("metrics", store=store).stdout.decode()
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            names |= {name} if kind != "histogram" else {f"{name}_bucket", f"{name}_sum"}
    return names | {"silomq_up"}


def test_each_query_asks_for_what_the_exporter_tells(store: StoreProcess) -> None:
    known = told(store.path)
    asked = {name for query in queries() for name in _NAME.findall(query)}
    assert asked - known == set()
    variable = dashboard()["templating"]["list"][1]["query"]["query"]
    assert set(_NAME.findall(variable)) <= known


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, StoreProcess]]:
    """A Prometheus that scrapes a store once a second: its address, and the store."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Debian's prometheus is not installed (apt install prometheus)")
    exporter, own = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = tmp_path / "prometheus.yml"
    config.write_text(
        json.dumps(  # JSON is YAML too
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {"job_name": "silomq", "static_configs": [{"targets": [exporter]}]}
                ],
            }
        )
    )
    command = [
        *(program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"),
        *(f"--web.listen-address={own}", "--log.level=error"),
    ]
    with (
        StoreProcess(tmp_path / "store", metrics_listen=exporter) as store,
        subprocess.Popen(command, stderr=subprocess.PIPE) as process,
    ):
        try:
            yield own, store
        finally:
            process.kill()


def answer(address: str, query: str) -> list[Any]:
    """The rows that a query finds. An error of Prometheus fails the test."""
    place = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(place, timeout=10) as got:
            found = json.load(got)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from error
    assert found["status"] == "success", query
    rows: list[Any] = found["data"]["result"]
    return rows


def is_up(address: str) -> bool:
    """Whether Prometheus is ready, which it says with a status of 503 before, and has a sample."""
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=10):
            return bool(answer(address, "silomq_up == 1"))
    except urllib.error.URLError:
        return False


def test_each_query_runs_in_prometheus(prometheus: tuple[str, StoreProcess]) -> None:
    address, store = prometheus
    with Admin(store.path) as admin:
        admin.create_topic("alpha")
    with (
        Producer(store.path) as producer,
        GroupConsumer(store.path, "readers", {"alpha": "*"}, start="earliest") as consumer,
    ):

        def work() -> None:
            for _ in range(20):
                producer.send("alpha", b"x")
            consumer.poll(100, timeout=0.1)

        work()
        eventually(lambda: is_up(address), "Prometheus has scraped the store")
        for _ in range(3):  # rates need several scrapes
            work()
            time.sleep(1)
        wanted = [query for query in queries() if not any(name in query for name in EMPTY)]

        def empty() -> list[str]:
            work()
            return [query for query in wanted if not answer(address, query)]

        eventually(lambda: not empty(), "each panel has rows")
    for query in queries():
        answer(address, query)
    rows = answer(address, 'silomq_topic_messages{topic="alpha"}')
    assert float(rows[0]["value"][1]) >= 80
