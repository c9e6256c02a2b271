"""The plans of stores that RocketMQ wrote; looking at them changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.golden_starts import SETTINGS, Started, check
from support.golden_stores import LOG_FILE_SIZE, NAMES, Golden, unpack
from support.left_stores import untimed
from support.offline_stores import state

from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.recovery.look import look
from silomq.store.recovery.plan import ROCKETMQ_KNOWN, RecoveryPlan


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    store = unpack(request.param, tmp_path)
    StoreFolders(store.path, create=True).close()
    return store


def golden_plan(golden: Golden) -> RecoveryPlan:
    before = state(golden.path)
    with StoreFolders(golden.path) as folders:
        plan = look(folders, SETTINGS)
        assert untimed(look(folders, SETTINGS)) == untimed(plan)
    assert state(golden.path) == before
    return plan


def test_the_plan_of_a_store_that_rocketmq_wrote(golden: Golden) -> None:
    said = golden.of("store")[0]
    plan = golden_plan(golden)
    assert plan.layout is None
    assert plan.run.known_from == ROCKETMQ_KNOWN
    assert plan.run.clean is (golden.name != "crashed")
    assert plan.run.power_lost is False
    assert (plan.log.first, plan.log.end.end) == (said["minPhyOffset"], said["maxPhyOffset"])
    assert (plan.log.torn, plan.log.half_made, plan.log.empty) == ((), (), "")
    assert plan.log.files == tuple(base for base, _ in golden.log_files())
    begin = plan.dispatch.begin
    if golden.name == "crashed":
        # The newest file whose first record was durable for sure, or where the index ends.
        assert plan.log.first <= begin.dispatched < plan.log.end.end
        assert plan.log.scanned_from == plan.log.scanned_from // LOG_FILE_SIZE * LOG_FILE_SIZE
    if golden.name == "normal":
        assert begin.dispatched == plan.log.end.end, "nothing is to be dispatched"
        assert plan.log.scanned_from == plan.log.files[-3]
        counts = {(q.topic, q.queue_id): (q.count, q.least) for q in plan.dispatch.queues}
        assert counts == {
            (q["topic"], q["queueId"]): (q["maxOffset"], q["minOffset"])
            for q in golden.of("queue")
            if (q["topic"], q["queueId"]) in counts
        }
    assert plan.dispatch.anew == ""
    assert plan.notes() == ()


def test_the_topics_of_a_store_that_rocketmq_wrote(golden: Golden) -> None:
    """Those of its messages are in the plan, or come with the records that are dispatched."""
    plan = golden_plan(golden)
    store = Started(golden.path)
    check(store, golden)
    configured = [topic.name for topic in plan.topics if topic.configured]
    assert bool(configured) is (golden.path / "config" / "topics.json").exists()
    known = {topic.name for topic in plan.topics}
    assert {queue.topic for queue in plan.dispatch.queues} <= known
    assert known <= {topic.name for topic in store.table.topics()}
    if plan.dispatch.begin.dispatched == plan.log.end.end:
        assert store.report.topics == len(known)


def test_a_last_log_file_of_no_bytes_of_a_crashed_rocketmq(tmp_path: Path) -> None:
    """It was made, and the crash came before it got its length."""
    golden = unpack("crashed", tmp_path)
    StoreFolders(golden.path, create=True).close()
    whole = golden_plan(golden)
    empty = golden.path / "commitlog" / file_name(whole.log.files[-1] + LOG_FILE_SIZE)
    empty.touch()
    plan = golden_plan(golden)
    assert plan.log == replace(whole.log, empty=empty.name)
    assert plan.run == whole.run
    store = Started(golden.path)
    check(store, golden)
    assert not empty.exists()
    assert store.report.notes == (f"removed a commit-log file of no bytes ({empty.name})",)
