"""The data pipeline on Apache Spark (docs/spark.md): `pip install 'silomq[spark]'`."""
