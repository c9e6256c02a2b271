"""Commands of RocketMQ's mqadmin: `silo names` and `silo broker` answer as RocketMQ's servers.

The same commands run against both, in the same situation, and what they print is compared, but for
times, addresses, ids and rates.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from interop.mqadmin import mqadmin, rocketmq, silomq
from interop.outputs import compared, config_of, statuses_of
from support.harness import eventually
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from pathlib import Path

    from interop.mqadmin import MqAdmin, Server

#: Messages that are sent, to four queues in turn.
COUNT = 20

#: Commands in their order, which matters: some change what the next ones see. NAMES and BROKER
#: stand for the addresses, FOLDER for a folder of the run, ID and KEY for a message's two ids.
COMMANDS = """
updateTopic -b BROKER -t orders -r 4 -w 4
updateTopic -c DefaultCluster -t paid -r 2 -w 2 -a +message.type=NORMAL
updateTopic -b BROKER -t wrong -a +no.such=1
updateTopic -b BROKER -t wrong -a -message.type
updateTopicList -b BROKER -f FOLDER/topics.json
updateSubGroup -b BROKER -g billing
updateSubGroup -c DefaultCluster -g audit -r 3
updateSubGroupList -b BROKER -f FOLDER/groups.json
@send senders orders 4 20
@consume billing orders 20
@await
clusterList
clusterList -m
topicList
topicList -c
topicRoute -t orders
topicRoute -t orders -l
topicRoute -t nothing
topicStatus -t orders
topicStatus -t nothing
topicClusterList -t orders
consumerProgress -g billing
consumerProgress -g nobody
consumerProgress
consumerConnection -g billing
consumerConnection -g nobody
producerConnection -g senders -t orders
producerConnection -g nobody -t orders
producer -b BROKER
consumerStatus -g billing
statsAll -t orders
brokerConsumeStats -b BROKER
brokerConsumeStats -b BROKER -o true
queryMsgByKey -t orders -k key3
queryMsgByKey -t orders -k none
queryMsgByOffset -t orders -b broker-a -i 1 -o 2
queryMsgById -i ID -t orders
queryMsgByUniqueKey -t orders -i KEY
queryMsgTraceById -i KEY
queryCq -t orders -q 1 -i 0 -c 3
queryCq -t orders -q 1 -i 0 -c 3 -g billing
queryCq -t orders -q 9 -i 0 -c 3
printMsg -t orders
printMsgByQueue -t orders -a broker-a -i 1 -p true
allocateMQ -t orders -i 1.1.1.1,2.2.2.2
getConsumerConfig -g billing
getConsumerConfig -g nobody
sendMessage -t orders -p hello -k hello-key -c tag0 -b broker-a -i 2
consumeMessage -t orders -b broker-a -i 2 -o 0 -c 2
checkMsgSendRT -t orders -a 3 -s 10
updateTopicPerm -b BROKER -t paid -p 4
updateTopicPerm -c DefaultCluster -t paid -p 6
updateOrderConf -t paid -m put -v broker-a:2
updateOrderConf -t paid -m get
updateOrderConf -t paid -m delete
updateKvConfig -s space -k name -v value
deleteKvConfig -s space -k name
wipeWritePerm -b broker-a
topicRoute -t orders
addWritePerm -b broker-a
cleanExpiredCQ -b BROKER
cleanUnusedTopic -b BROKER
deleteExpiredCommitLog -b BROKER
haStatus -b BROKER
updateBrokerConfig -b BROKER -k autoCreateTopicEnable -v false
updateBrokerConfig -b BROKER -k brokerConfigPath -v x
updateNamesrvConfig -n NAMES -k orderMessageEnable -v true
updateNamesrvConfig -n NAMES -k kvConfigPath -v x
@stop
cloneGroupOffset -s billing -d audit -t orders
resetOffsetByTime -g billing -t orders -s 0
consumerProgress -g billing
resetOffsetByTime -g billing -t orders -s -1
skipAccumulatedMessage -g billing -t orders
consumerProgress -g billing
exportMetadata -c DefaultCluster -f FOLDER
exportMetrics -c DefaultCluster -f FOLDER
deleteSubGroup -b BROKER -g audit
deleteSubGroup -c DefaultCluster -g billing -r true
deleteTopic -c DefaultCluster -t paid
deleteTopic -c DefaultCluster -t orders
topicList
topicStatus -t orders
"""
#: Figures of brokerStatus that differ from run to run: times, rates, disks. And the capacity of
#: queues of requests, which ours has not.
MOVING = re.compile(
    r"(Timestamp|TimeStamp|TimeMax|TimeMills|DistributeTime|Tps|Capacity|Behind)$"
    r"|Latency|Disk|runtime"
)
#: So many kinds of commands there are at least, and the same must come of so many.
KINDS = 40


class Run:
    """The commands against one server: what each printed."""

    def __init__(self, folder: Path, server: Server, tool: MqAdmin) -> None:
        self._server = server
        self._tool = tool
        self._words = {"NAMES": server.names, "BROKER": server.broker, "FOLDER": str(folder)}
        self.status = self.config = self.names_config = ""
        self.said = [self._said(line) for line in COMMANDS.strip().splitlines()]

    def _said(self, line: str) -> str:
        if line == "@await":
            eventually(self._is_settled, "the group's offsets are there")
            self._learn()
            return ""
        for word, value in self._words.items():
            line = re.sub(rf"\b{word}\b", value, line)
        said = self._tool.run(*line.split(" "))
        for word, value in self._words.items():
            said = said.replace(value, word)
        return said

    def _is_settled(self) -> bool:
        """Whether the group has told the broker how far it is, and heart-beats have come."""
        with RemotingClient(self._server.broker) as client:
            stats = client.ask(208, {"consumerGroup": "billing", "topic": "orders"}).body
            client.ask(203, {"consumerGroup": "billing"})
        offsets = re.findall(rb'"brokerOffset":(\d+),"consumerOffset":(\d+)', stats)
        return len(offsets) == 4 and all(end == at for end, at in offsets)

    def _learn(self) -> None:
        """The ids of a message, and what the broker tells of itself."""
        with RemotingClient(self._server.broker) as client:
            found = client.ask(11, _PULL)
            record = found.body
        key = re.search(rb"UNIQ_KEY\x01([0-9A-F]+)", record)
        assert key is not None
        at = int.from_bytes(record[28:36], "big")
        host = bytes.fromhex("7F000001") + int(self._server.broker.split(":")[1]).to_bytes(4, "big")
        self._words |= {"ID": f"{host.hex().upper()}{at:016X}", "KEY": key[1].decode()}
        self.status = self._said("brokerStatus -b BROKER")
        self.config = self._said("getBrokerConfig -b BROKER")
        self.names_config = self._said("getNamesrvConfig -n NAMES")


_PULL = {
    "consumerGroup": "looking", "topic": "orders", "queueId": 0, "queueOffset": 0,
    "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
    "subscription": "*", "subVersion": 0, "expressionType": "TAG",
}  # fmt: skip


def _run(kind: str, folder: Path) -> Run:
    folder.mkdir()
    topics = [{"topicName": "one", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}]
    (folder / "topics.json").write_text(json.dumps([*topics, {"topicName": "two", "perm": 6}]))
    groups = [{"groupName": "first"}, {"groupName": "second", "retryMaxTimes": 2}]
    (folder / "groups.json").write_text(json.dumps(groups))
    servers = {"rocketmq": rocketmq, "silomq": silomq}
    with servers[kind](folder / "servers") as server, mqadmin(folder, server) as tool:
        run = Run(folder, server, tool)
        run.said.append(tool.run("exportConfigs", "-c", "DefaultCluster", "-f", str(folder)))
        return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Run]]:
    """The run against each server, side by side."""
    place = tmp_path_factory.mktemp("mqadmin")
    kinds = ("rocketmq", "silomq")
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda kind: _run(kind, place / kind), kinds))
    return {kind: (place / kind, run) for kind, run in zip(kinds, found, strict=True)}


def test_commands_print_the_same(runs: dict[str, tuple[Path, Run]]) -> None:
    lines = COMMANDS.strip().splitlines()
    theirs, ours = (runs[kind][1].said for kind in ("rocketmq", "silomq"))
    different = []
    for line, their, our in zip(lines, theirs, ours, strict=False):
        expected, found = compared(line, their), compared(line, our)
        if expected != found:
            different.append(f"--- {line}\n{expected}\n+++\n{found}")
    assert not different, "\n".join(different)
    kinds = {line.split()[0] for line in lines if not line.startswith("@")}
    assert len(kinds | {"brokerStatus", "getBrokerConfig", "getNamesrvConfig"}) >= KINDS


def test_a_broker_says_how_it_is_under_the_same_names(runs: dict[str, tuple[Path, Run]]) -> None:
    theirs, ours = (statuses_of(runs[kind][1].status) for kind in ("rocketmq", "silomq"))
    assert ours.keys() == theirs.keys()
    same = [name for name in theirs if not MOVING.search(name)]
    assert len(same) >= 25
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert int(ours["commitLogMaxOffset"]) > 0
    assert float(ours["commitLogDiskRatio"]) > 0
    puts = re.findall(r"\[([^\]]+)\]:(\d+)", ours["putMessageDistributeTime"])
    assert [puts[0][0], puts[-1][0], len(puts)] == ["<=0ms", "10s~", 13]
    assert 0 < sum(int(count) for _, count in puts) <= COUNT


@pytest.mark.parametrize("what", ["config", "names_config"])
def test_settings_have_the_names_and_values_of_rocketmq(
    runs: dict[str, tuple[Path, Run]], what: str
) -> None:
    """Those that both have; where ours differ on purpose, `config_of` leaves them out."""
    theirs, ours = (config_of(getattr(runs[kind][1], what)) for kind in ("rocketmq", "silomq"))
    both = ours.keys() & theirs.keys()
    assert len(both) >= (30 if what == "config" else 9), sorted(ours)
    assert {n: ours[n] for n in both} == {n: theirs[n] for n in both}


def test_what_is_exported_is_the_same(runs: dict[str, tuple[Path, Run]]) -> None:
    def exported(kind: str, name: str) -> Any:
        return json.loads((runs[kind][0] / name).read_text())

    def metadata(kind: str) -> Any:
        found = exported(kind, "metadata.json")
        named = ("orders", "paid", "one", "two", "billing", "audit", "first", "second")
        return {
            table: {name: one for name, one in found[table].items() if name in named}
            for table in ("topicConfigTable", "subscriptionGroupTable")
        }

    assert metadata("silomq") == metadata("rocketmq")
    theirs, ours = (exported(kind, "configs.json") for kind in ("rocketmq", "silomq"))
    assert ours["clusterScale"] == theirs["clusterScale"]
    (their,), (our,) = (one["brokerConfigs"].values() for one in (theirs, ours))
    assert our == {name: their[name] for name in our}
    assert len(our) >= 10
