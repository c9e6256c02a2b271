"""A streaming query in a process of its own, to be killed: python stream_driver.py STORE OUT
CHECKPOINT always|once. Writes topic, queueId, queueOffset and body as Parquet.
"""

from __future__ import annotations

import sys

from silomq.pipeline.spark.session import QUICK, session


def main(store: str, out: str, checkpoint: str, how: str) -> None:
    spark = session(
        "stream driver",
        master="local[2]",
        **{
            "spark.driver.memory": "512m",
            "spark.driver.defaultJavaOptions": QUICK,
        },
    )
    # Small batches to be killed between, and a large one to come to an end.
    limit = 100_000 if how == "once" else 150
    frame = (
        spark.readStream.format("silomq")
        .schema("topic string, queueId int, queueOffset bigint, body binary")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=limit)
        .load(store)
    )
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    trigger = {"availableNow": True} if how == "once" else {"processingTime": "0 seconds"}
    query = writer.trigger(**trigger).start(out)
    print("started", flush=True)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
