"""One Spark session for all tests: starting it takes longer than most of them, a minute where much
else runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time for each test: the first that needs the session waits for its start."""
    for item in items:
        here = item.path.is_relative_to(Path(__file__).parent)
        if here and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real local session with two cores and a small heap."""
    from silomq.pipeline.spark.session import QUICK, session

    found = session(
        "silomq tests",
        master="local[2]",
        **{
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.defaultJavaOptions": QUICK,
        },
    )
    yield found
    found.stop()
