"""A driver to be killed: a streaming query from JSON files into a store's topic.

`python sink_driver.py STORE INPUT CHECKPOINT` runs until all files are in the store.
"""

from __future__ import annotations

import sys

from silomq.pipeline.session import session


def main() -> None:
    store, folder, checkpoint = sys.argv[1:]
    spark = session(
        "silomq sink",
        master="local[2]",
        **{
            "spark.driver.memory": "512m",
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    rows = spark.readStream.schema("body string, keys array<string>").option(
        "maxFilesPerTrigger", 1
    )
    query = (
        rows.json(folder)
        .writeStream.format("silomq")
        .option("topic", "published")
        .option("checkpointLocation", checkpoint)
        .option("path", store)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
