"""Registers the data source `silomq` with PySpark, which imports top-level modules named pyspark_*
and registers their `DefaultSource`. So `spark.read.format("silomq")` works without further setup.
"""

from silomq.pipeline.source.source import SiloSource


class DefaultSource(SiloSource):
    """The data source `silomq`."""
