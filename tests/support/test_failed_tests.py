"""The tests that `make retest` runs once more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import failed_tests


def test_the_names_are_those_that_pytest_keeps(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import pytest\n\ndef test_good(): pass\ndef test_bad(): assert 0\n"
        "@pytest.fixture\ndef broken(): yield; assert 0\ndef test_end(broken): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    assert subprocess.run([*command, str(tmp_path)], check=False).returncode == 1
    cache = tmp_path / ".pytest_cache/v/cache/lastfailed"
    assert failed_tests.failed(cache) == ["test_two.py::test_bad", "test_two.py::test_end"]


@pytest.mark.parametrize(("count", "status"), [(0, 1), (1, 0), (3, 0), (4, 1)])
def test_a_run_that_failed_throughout_is_not_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    count: int,
    status: int,
) -> None:
    cache = tmp_path / "lastfailed"
    if count:
        cache.write_text(json.dumps({f"test_{i}": True for i in range(count)}))
    monkeypatch.setattr(failed_tests, "CACHE", cache)
    monkeypatch.setattr(sys, "argv", ["failed_tests.py", "--most", "3"])
    assert failed_tests.main() == status
    assert capsys.readouterr().out.count("failed: test_") == count
