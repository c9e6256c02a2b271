"""Look-ups by time and key: what RocketMQ is asked about, and what it must answer."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from interop.rocketmq import FOREVER
from support.checking.messages import queues_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from interop.rocketmq import Said
    from support.checking.stored import Known
    from support.twins import Queue

MOST = 64
FLOOR_MS = 1_000  # the index knows times in whole seconds


def write_queries(
    path: Path,
    known: Sequence[Known],
    *,
    sure: Collection[int] = (),
    keys: int = 400,
    times: int = 12,
) -> Path:
    """Queries about the messages at the offsets `sure` and `keys` random ones, and about `times`
    moments in each queue.
    """
    chance = random.Random(len(known))
    lines: list[tuple[object, ...]] = []
    for k in [k for k in known if k.physical_offset in sure] + chance.sample(
        known, min(keys, len(known))
    ):
        for key in k.keys:
            lines.append(("key", k.topic, key, MOST, 0, FOREVER))
            lines.append(
                ("key", k.topic, key, MOST, k.store_timestamp - FLOOR_MS, k.store_timestamp)
            )
    lines.append(("key", known[0].topic, "nobody has this key", MOST, 0, FOREVER))
    for (topic, queue), messages in sorted(queues_of(known).items()):
        stored = [k.store_timestamp for k in messages]
        moments = {0, stored[0] - 1, stored[-1] + 1, stored[-1] + 86_400_000}
        for at in chance.choices(stored, k=times):
            moments |= {at - 1, at, at + 1}
        lines += [("time", topic, queue, moment) for moment in sorted(moments)]
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def check_keys(said: Said, known: Sequence[Known], twice: Collection[int] = ()) -> int:
    """Every answer to a key holds all that has it, once, and nothing else; how many there were. A
    message at an offset in `twice` may be given once or twice.

    RocketMQ finds messages by the key's hash alone and leaves it to whoever asks to look at the
    keys: so does this.
    """
    having: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for k in known:
        for key in k.keys:
            having[k.topic, key].append(k)
    by_place = {k.physical_offset: k for k in known}
    for line in said.all("key"):
        asked, matches = (line["topic"], line["key"]), having[line["topic"], line["key"]]
        assert len(matches) <= MOST, "the test's own key is too common"
        found = [
            k for k in (by_place[place] for place in line["offsets"])
            if k.topic == asked[0] and asked[1] in k.keys
        ]  # fmt: skip
        for place, times in Counter(k.physical_offset for k in found).items():
            assert times <= 1 + (place in twice), f"a message is given {times} times: {line}"
        begin, end = line["begin"], line["end"]
        sure = {k.physical_offset for k in matches if begin + FLOOR_MS <= k.store_timestamp <= end}
        may = {k.physical_offset for k in matches if begin <= k.store_timestamp < end + FLOOR_MS}
        assert sure <= {k.physical_offset for k in found} <= may, line
        assert set(line["offsets"]) == set(line["indexPhyOffsets"]), line
    return len(said.all("key"))


def check_times(said: Said, known: Sequence[Known], *, exact: bool) -> int:
    """Each moment leads to the first message from then on; releases that are not `exact` may also
    give the one before, or another of the same time. How many there were.
    """
    stored: dict[Queue, list[int]] = {
        queue: [k.store_timestamp for k in messages] for queue, messages in queues_of(known).items()
    }
    for line in said.all("time"):
        times, moment = stored[line["topic"], line["queueId"]], line["ts"]
        assert times == sorted(times), "a queue's times go back: this check needs them ascending"
        at = bisect_left(times, moment)
        if exact:
            assert line["offset"] == at, line
        else:
            assert times[line["offset"]] in times[max(0, at - 1) : at + 1], (line, at)
    return len(said.all("time"))
