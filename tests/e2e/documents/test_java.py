"""The blocks in Java compile with RocketMQ's client. tests/interop runs whole programs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from e2e.documents.blocks import all_blocks
from e2e.documents.test_blocks import is_for_java
from interop.rocketmq import BUILD, RELEASES, require

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

class Block%d {
    static void run() throws Exception {
%s
    }
}
"""


def test_the_blocks_compile(tmp_path: Path) -> None:
    require(RELEASES[0])
    found = [block for block in all_blocks() if is_for_java(block)]
    assert len(found) >= 2
    sources = []
    for number, block in enumerate(found):
        sources.append(tmp_path / f"Block{number}.java")
        sources[-1].write_text(_PROGRAM % (number, block.text))
    done = subprocess.run(
        [
            *("javac", "-cp", f"{BUILD / RELEASES[0] / 'lib'}/*", "-d", str(tmp_path)),
            *map(str, sources),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, [block.place for block in found] + [done.stderr]
