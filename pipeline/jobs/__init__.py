"""Bulk jobs on Spark: statistics, audit, rebuilding, export and import, archives
(docs/spark-jobs.md).
"""
