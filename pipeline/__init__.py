"""The data pipeline on Apache Spark (docs/spark.md): `pip install 'silomq[spark]'`.

These costs of a read are Spark's, and not those of the store's kernel. `make bench-spark` measures
them with a source whose batches are ready.

- The JVM takes rows out of Arrow one by one, which is most of the CPU time. Local sessions use the
  parallel garbage collector, unless one is set already.
- A task has a fixed cost before its first row. So a task's default part of a log is large (512
  MiB). On few cores smaller parts gain nothing.
- Spark's Python processes run many tasks, and collect garbage after each. A collection visits all
  objects that pandas and pyarrow have made. `worker.py` excludes those objects.
- The start of a JVM is the largest cost of a short job. `python -m silomq.pipeline.spark.classes`
  puts Spark's classes into an archive that the JVM maps; sessions use it if it exists.
"""
