"""The messages of stores as the jobs read them: only the columns that a job needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def messages(
    spark: SparkSession, stores: Sequence[str], schema: str | None = None, **options: object
) -> DataFrame:
    """All messages of the stores (folders or patterns of folders), read by the data source `silomq`
    with its `options`. Has the columns of `schema` (default: all). Bodies are as they are stored:
    an export keeps them so beside their sysFlag, and an import stores both again.
    """
    reader = spark.read.format("silomq").option("paths", json.dumps(list(stores)))
    reader = reader.option("rawBodies", "true")
    if schema is not None:
        reader = reader.schema(schema)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()
