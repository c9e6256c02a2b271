"""The data source `silomq`: reading stores in batches and streams (docs/spark.md).

These modules do not import Spark: the options, `snapshot.py` (what a store holds), `plan.py` (which
parts of it a query reads), `part_reader.py` (reading them) and `stream_offsets.py` (the offsets of
a stream). The bounds of a running store come from its shared memory, those of a stopped store from
its files. A stream's offsets are kept in Spark's checkpoint alone.
"""
