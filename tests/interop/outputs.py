"""What commands of mqadmin print, without what differs between two runs."""

from __future__ import annotations

import re
from typing import Final

#: What is replaced in all outputs.
_MASKS: Final = (
    # RocketMQ 5.3.3 takes a topic's own name for one of its groups.
    (r"(?s)MessageTrack \[consumerGroup=orders, trackType=UNKNOWN.*?\)\]", ""),
    (r"(?m)^\d\d:\d\d:\d\d,\d+ \|-.*\n", ""),  # the log of the tool itself
    (r"(?m)^\s+(?:at |\.\.\. ).*\n?", ""),  # the frames of a stack trace
    (r"(?m)^.*06FAQ.*\n?", ""),  # where the tool's or the server's makers have help
    (r"\d{4}-\d\d-\d\d[ @]\d\d:\d\d:\d\d(?:[,.]\d+)?", "TIME"),
    (r"\b1[78]\d{11}\b", "MS"),
    (r"\b[0-9A-F]{32,64}\b", "ID"),
    (r"\b127\.0\.0\.1:\d+\b", "ADDRESS"),
    (r"\b\d+\.\d+(?:E-?\d+)?\b", "RATE"),
    (r"/[\w./-]*/(?=[\w.-]+\b)", ""),  # folders
    (r"\(\d+,\d+ms(?:\|\d+,\d+ms)?\)", "(LOAD)"),
    (r"[ \t]+", " "),
)
#: Topics that RocketMQ's broker has beside those that somebody made. Ours makes them when they are
#: needed.
_SYSTEM: Final = (
    *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "BenchmarkTest"),
    *("OFFSET_MOVED_EVENT", "TBW102", "rmq_sys_REVIVE_LOG_DefaultCluster", "SELF_TEST_TOPIC"),
    *("SCHEDULE_TOPIC_XXXX", "DefaultCluster_REPLY_TOPIC", "rmq_sys_wheel_timer", "broker-a"),
    *("rmq_sys_SYNC_BROKER_MEMBER_broker-a", "TRANS_CHECK_MAX_TIME_TOPIC", "DefaultCluster"),
)
#: Commands whose lines come in the order of a hash table.
_UNORDERED: Final = ("topicList", "producer", "consumerStatus", "printMsg", "statsAll")
#: Commands of which one number depends on how fast the machine is.
_TIMED: Final = {
    "consumerProgress": r"(?<=CLUSTERING) \d+",  # messages a second
    "statsAll": r"(?m)(?<=RATE )\d+( \d+| NO_CONSUMER)$",  # counted each 10 s
    "checkMsgSendRT": r"(?m)\d+$",
    "wipeWritePerm": r"\d+$",
    "addWritePerm": r"\d+$",
    # The lag of the timer wheel, seconds: the number before that of messages.
    "clusterList": r"\b\d+(?=-\d+\()",
    "haStatus": r"(?<=MasterCommitLogMaxOffset)\s+\d+",
}
#: Settings whose values differ on purpose.
_OWN: Final = frozenset(
    (
        *("listenPort", "storePathRootDir", "namesrvAddr", "brokerIP1", "recallMessageEnable"),
        *("diskMaxUsedSpaceRatio", "cleanResourceInterval", "storePathCommitLog"),
        *("maxHashSlotNum", "maxIndexNum", "cleanFileForciblyEnable"),  # small, for tests
        *("enablePropertyFilter", "warmMapedFileEnable", "timerWheelEnable", "aclEnable"),
    )
)


def compared(command: str, said: str) -> str:
    """What a command printed, in the form in which it is compared."""
    name = command.split(maxsplit=1)[0]
    for pattern, instead in _MASKS:
        said = re.sub(pattern, instead, said)
    if name == "consumerProgress":  # RocketMQ keeps what was pulled before a reset
        said = re.sub(r"(?m)^(\S+ \S+ \d+ \d+ \d+ -?\d+) \d+ ", r"\1 ", said)
        said = re.sub(r"Consume Inflight Total: .*", "", said)
    if name in _TIMED:
        said = re.sub(_TIMED[name], " N", said)
    lines = [line.strip() for line in said.splitlines()]
    if name in ("topicList", "statsAll"):
        lines = [line for line in lines if not _is_left_out(line)]
    if name in _UNORDERED:
        lines.sort()
    return "\n".join(filter(None, lines))


def _is_left_out(line: str) -> bool:
    """Whether a line is of a system topic, or of a topic that is taken for its own group."""
    words = line.removeprefix("DefaultCluster ").split()
    return bool(words) and (words[0] in _SYSTEM or words[:1] == words[1:2])


def statuses_of(said: str) -> dict[str, str]:
    """The figures that brokerStatus prints. Those of one folder have its name only."""
    found = {}
    for line in said.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found[re.sub(r"_(FOLDER)?/.*", "_FOLDER", name.strip())] = value.strip()
    return found


def config_of(said: str) -> dict[str, str]:
    """The settings that getBrokerConfig or getNamesrvConfig prints."""
    found = {}
    for line in said.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() and name.strip() not in _OWN:
            found[name.strip()] = value.strip()
    return found
