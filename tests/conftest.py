"""What all tests share. Helper modules lie beside the tests: `from tidy.sources import ROOT`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Variables with our prefix that are for the tests themselves; others would change settings.
OURS = ("SILOMQ_FAULT_BUILD", "SILOMQ_LONG")

#: How the names of slow modules begin, the slowest first.
SLOW = (
    "spark/test_killed", "spark/test_jobs", "spark/test_demo", "spark/test_program", "spark/",
    "interop/", "crash/", "e2e/", "power/", "unit/tools/",
)  # fmt: skip
#: Modules below `tidy` that build the package.
RUNS_COMPILERS = ("test_build_commands.py", "test_wheel.py")
#: Modules below `spark` whose Spark runs in processes of their own.
OWN_SPARK = ("test_demo.py", "test_program.py")


class RootIsNoPackage:
    """Keeps pytest from importing the repository's `__init__.py`, under the name of its folder.

    It would, because the root of what it collects has one, and so would run a second silomq, which
    has no compiled modules.
    """

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        """The root as a plain folder; None leaves all others to pytest."""
        if path != Path(__file__).parents[1]:
            return None
        directory: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
        return directory


def pytest_configure(config: pytest.Config) -> None:
    """Takes settings out of the environment: a developer's own must not change what is tested. The
    programs that tests start obey signals, also if this one runs in the background or under nohup.
    """
    # A hook of this file would only see what lies below it.
    config.pluginmanager.register(RootIsNoPackage())
    pytest.register_assert_rewrite("interop.conformance")
    for name in list(os.environ):
        if name.startswith("SILOMQ_") and name not in OURS:
            del os.environ[name]
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # A program inherits what is ignored, but no handler.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    # A machine that is busy for a moment is no failure of what is tested.
    hypothesis.settings.register_profile(
        "patient",
        hypothesis.settings.default,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow first: when modules run side by side, all processes have work until the end."""
    top = Path(__file__).parent

    def turn(item: pytest.Item) -> int:
        name = str(item.path.relative_to(top))
        return next((i for i, start in enumerate(SLOW) if name.startswith(start)), len(SLOW))

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Modules stay whole. Those that share a Spark session run in the same process: the jobs' in
    one, the others in another. So do those that read the syntax trees of all sources.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Modules(LoadScopeScheduling):  # type: ignore[misc]
        """What runs in one process, one after the other."""

        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            if path.startswith("tests/tidy/") and not path.endswith(RUNS_COMPILERS):
                return "tidy"
            if not path.startswith("tests/spark/") or path.endswith(OWN_SPARK):
                return path
            return "jobs" if path.startswith("tests/spark/test_jobs") else "spark"

    return Modules(config, log)


def pytest_report_header() -> list[str]:
    """Says which silomq is tested: the installed one, never the folder pytest runs in."""
    import silomq

    place = Path(silomq.__path__[0])
    faults = os.environ.get("SILOMQ_FAULT_BUILD", "none, crash tests will be skipped")
    return [f"silomq: {place}", f"fault build: {faults}"]


@pytest.fixture(scope="module", autouse=True)
def no_shared_memory_stays() -> Iterator[None]:
    """The stores of a module leave nothing in /dev/shm. It begins before other fixtures, so it ends
    after them.
    """
    from support import harness

    yield
    left = {str(path): harness.memory_of(path) for path in harness.started if path.is_dir()}
    harness.started.clear()
    assert not any(left.values()), {path: names for path, names in left.items() if names}


@pytest.fixture(scope="session")
def long_forms() -> bool:
    """Whether to run the long form of a test: `make torture`."""
    return os.environ.get("SILOMQ_LONG") == "1"


@pytest.fixture
def store_id(tmp_path: Path) -> Iterator[int]:
    """The identity of the store in `tmp_path`: its objects in shared memory go with the test."""
    from silomq.shm import segments

    number = segments.store_identity(tmp_path)
    yield number
    segments.remove_all(number)
    assert segments.leftovers(number) == []
