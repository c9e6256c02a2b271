"""`make bench-spark`: Spark over a store, compared with Spark over Parquet."""
