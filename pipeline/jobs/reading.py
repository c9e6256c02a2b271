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
    with its `options`. Has the columns of `schema` (default: all).
    """
    reader = spark.read.format("silomq").option("paths", json.dumps(list(stores)))
    if schema is not None:
        reader = reader.schema(schema)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()
