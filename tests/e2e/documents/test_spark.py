"""The blocks about Spark run as they stand, all in one program: starting Spark takes longer than
any of them. `silo spark` runs in this program too, with the session that is there.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from e2e.documents.blocks import Block, all_blocks
from e2e.documents.expected import commands
from e2e.documents.place import Place
from e2e.documents.test_blocks import is_for_spark
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS

from silomq import Producer
from silomq.pipeline.spark.session import QUICK

if TYPE_CHECKING:
    from pathlib import Path

#: Runs the arguments as `silo` does.
_SILO = """
def silo(*arguments):
    from silomq.cli.main import main
    import sys
    sys.argv = ["silo", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{arguments} ended with status {end.code}") from None
"""


def program(place: Place) -> str:
    """All blocks as one program."""
    parts = [_SILO]
    for block in all_blocks():
        if not block.is_run or not is_for_spark(block):
            continue
        parts.append(f"print({block.place!r}, flush=True)")
        if block.language == "python":
            parts.append(place.fit(block.text))
            continue
        for command, _ in commands(block.text):
            for one in place.fit(command).split("&&"):
                words = shlex.split(one, comments=True)
                assert words[0] == "silo", f"{block.place}: {command}"
                parts.append(f"silo(*{words[1:]!r})")
    return "\n".join((*parts, "spark.stop()", ""))


@pytest.mark.timeout(400)
def test_the_blocks_run_as_they_stand(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    place = Place(tmp_path)
    for name in ("data/a", "data/b"):
        with StoreProcess(tmp_path / name, base=SHIPPED_LIMITS), Producer(tmp_path / name) as one:
            for number in range(10):
                one.send("orders", f"order {number}", tags="paid")
    with StoreProcess(tmp_path / "store", base=SHIPPED_LIMITS):
        (tmp_path / "var/lib/silomq").symlink_to(tmp_path / "store")
        with Producer(tmp_path / "store") as one:
            one.send("orders", "one coffee", tags="drinks")
            one.send("numbers", "1")
        status, said = place.run(
            [sys.executable, "-P", "-"],
            Block("", 0, "python", ""),
            program(place),
            wait=300,
            JDK_JAVA_OPTIONS=QUICK,
        )
    assert status == 0, said
    assert "drinks" in said
    assert "Traceback" not in said
