"""The data source `silomq`: reading stores in batches and streams (docs/spark.md).

Free of Spark are the options, what a store holds (`snapshot.py`), which parts of it a query reads
(`plan.py`), reading them (`part_reader.py`) and where a stream is (`stream_offsets.py`). Of a
running store the bounds come from its shared memory, of a stopped one from its files. A stream's
offsets live in Spark's checkpoint alone.
"""
