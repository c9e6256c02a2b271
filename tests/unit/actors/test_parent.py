"""An actor does not outlive its supervisor, however early that dies."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import os
from silomq.actors.parent import die_with_parent
die_with_parent({parent})
print("lives")
"""


@pytest.mark.parametrize(
    ("parent", "status", "said"),
    [("os.getppid()", 0, "lives\n"), ("os.getpid()", 1, "")],
    ids=["its parent", "a parent that died before it looked"],
)
def test_an_actor_dies_with_its_parent(parent: str, status: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHILD.format(parent=parent)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, said), done.stderr
