"""The data pipeline on Apache Spark (docs/spark.md): `pip install 'silomq[spark]'`.

What a read costs beside our kernel, and what is done about it (`make bench-spark` prints the limit,
a source whose batches are ready):

- The JVM takes rows out of Arrow one by one, which is most of the CPU time. Local sessions use the
  parallel collector, unless somebody chose one; the rest is Spark's.
- A task costs before its first row. So a task's default part of a log is large (512 MiB); on few
  cores smaller parts only cost.
- Spark uses its Python processes again and collects garbage after each task, which looks through
  all that pandas and pyarrow have made. `worker.py` freezes those objects.
- The start of a JVM is the largest cost of a short job. `python -m silomq.pipeline.spark.classes`
  puts Spark's classes into an archive that is mapped; sessions use it if it is there.
"""
