"""`make bench-spark`: Spark over a store beside Spark over Parquet."""
