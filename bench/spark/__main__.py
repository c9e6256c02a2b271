"""`python -m silomq.bench.spark`: Spark over a store beside Spark over Parquet."""

from __future__ import annotations

from .tables import main

main()
