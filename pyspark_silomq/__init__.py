"""PySpark looks for top-level modules named pyspark_* and registers their `DefaultSource`: with
this one installed `spark.read.format("silomq")` needs no further word.
"""

from silomq.pipeline.source.source import SiloSource


class DefaultSource(SiloSource):
    """The data source `silomq`."""
