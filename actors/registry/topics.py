"""The registry's topics: opening, making, changing, deleting and listing them.

The registry alone writes topics, queues and grants of the topic table, and `config/topics.json`.
When a producer opens a new topic, the file is saved 0.1 s later or more; `silomq/makers` has the
topic before its first record (`makers.py`). When a client asks for a change, the file is saved
before the answer.

A deletion has these steps, and each is idempotent:

1. Set the topic's state in the table to DELETING, and revoke all grants for it.
2. Wait until append has ended its round. From then on nothing is appended to the topic.
3. Record the deletion durably (`store/topics/deletions.py`).
4. Mark the queues as deleted, and wait until reput has ended its round.
5. Remove the topic from `topics.json`, then remove its folders.
6. Record durably that the deletion is done, then end it in the table.

After a kill the next registry continues the deletion. After a crash of the store the next start
does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict, replace

from ...shm._words import fault
from ...shm.protocol.answers import (
    Deleted,
    Done,
    Opened,
    TopicEntry,
    TopicFound,
    TopicsPage,
    Version,
)
from ...shm.protocol.requests import Alter, AskTopic, AskTopics, Create, Delete, Open
from ...store.config.topics import TopicConfig
from ...store.names import (
    TIMER_TOPIC,
    UNSENDABLE_TOPICS,
    is_light_queue,
    is_system_topic,
    validate_topic,
)
from ...store.retention.topic_limits import ATTRIBUTES as LIMITS
from ...store.retention.topic_limits import bad_attribute
from ...store.topics import table_changes
from ...store.topics.deletions import Deletions, remove_queues
from ...store.topics.topic_table import Topic, TopicState
from ..actor import World
from . import attributes
from .makers import Makers
from .refusals import Refused, illegal, unavailable
from .rounds import await_round
from .topics_file import TopicsFile

_PAGE_TOPICS = 1000
#: Bits of a topic's permission.
WRITE, READ = 2, 4


class Topics:
    """The topics of the store.

    Methods that take a request return its answer. They raise Refused, IllegalMessage for a name
    that is not a topic's, and TableFull.
    """

    def __init__(self, world: World, logger: Any, beat: Callable[[], None]) -> None:
        """Reads the saved attributes, and every topic of the table: a killed registry may not have
        saved the newest. `beat` is called in long loops, and while a method waits.
        """
        self.settings = world.settings
        self.table = world.table
        self.control = world.control
        self.queue_folder = world.folders.consume_queue
        self.logger = logger
        self.beat = beat
        self.count_word = world.control.own("topics")
        self.file = TopicsFile(world.folders.config, logger)
        self.makers = Makers(world.settings, world.folders.ours, logger)
        self.deletions = Deletions.read(world.folders.ours)
        self.live = 0
        self.deleting: dict[str, Topic] = {}
        for topic in self.table.entries():
            beat()
            if topic.state == TopicState.LIVE:
                self.live += 1
                self._adopt(topic)
            elif topic.state == TopicState.DELETING:
                self.deleting[topic.name] = topic
        self.count_word.store(self.live)
        if self.deleting:  # a killed registry may have decided, and not have synced that
            world.folders.ours.sync()
        for name in list(self.deleting):
            self._go_on_deleting(name)

    def _adopt(self, topic: Topic) -> None:
        """Corrects the attributes of a topic by the table. The file may be older, if the registry
        was killed before it saved.
        """
        has = (topic.read_queue_nums, topic.write_queue_nums, topic.perm)
        saved = self.file.configs.get(topic.name)
        if saved is None:
            self.file.put(TopicConfig(topic.name, *has))
        elif (saved.read_queue_nums, saved.write_queue_nums, saved.perm) != has:
            self.file.put(changed(saved, *has))

    # -- opening

    def open(self, request: Open, session: int | None) -> Opened:
        """The queues of a topic. A missing topic is made for a writer, if the settings allow it.

        With `write`, the session with the index `session` gets a grant for the topic. Raises
        Refused also when the topic's permission forbids it.
        """
        name, write = request.topic, request.write
        validate_topic(name)
        if write and (name in UNSENDABLE_TOPICS or name == TIMER_TOPIC):
            why = f"topic {name} is the store's own: use delay_level=, deliver_at= or another topic"
            raise illegal(why)
        topic = self.table.find(name)
        if topic is None:
            topic = self._make_for(request)
        if not topic.perm & (WRITE if write else READ):
            why = f"topic {name} may not be {'written' if write else 'read'} (perm {topic.perm})"
            raise illegal(why)
        nums = topic.write_queue_nums if write else topic.read_queue_nums
        if nums == 0:  # RocketMQ's tools can leave such a topic behind
            raise illegal(f"topic {name} has no queues to {'write' if write else 'read'}")
        if write and session is not None:
            self.table.grant(session, topic.index)
        return Opened(index=topic.index, slots=topic.slots[:nums])

    def _make_for(self, request: Open) -> Topic:
        """Makes a topic that does not exist, for a producer that opens it; a light queue also for
        a reader. Raises Refused.
        """
        light = is_light_queue(request.topic)
        makes = request.write and self.settings.auto_create_topic_enable
        if not (makes or (light and self.settings.enable_lmq)):
            why = f"topic {request.topic} does not exist"
            if request.write:
                why += ", and auto_create_topic_enable is off: create it (silo topics create)"
            raise illegal(why)
        queues = 1 if light else self.settings.default_topic_queue_nums
        return self._add(TopicConfig(request.topic, queues, queues))

    # -- making and changing

    def create(self, request: Create) -> Done:
        """Makes a topic and saves it. Refused if it exists with another number of queues.

        `request.queues` 0 stands for `default_topic_queue_nums`.
        """
        name = request.topic
        validate_topic(name)
        self._refuse_system(name)
        queues = request.queues or self.settings.default_topic_queue_nums
        self._check_queues(queues)
        topic = self.table.find(name)
        if topic is not None:
            if topic.write_queue_nums != queues:
                why = f"topic {name} exists with {topic.write_queue_nums} queues"
                raise illegal(f"{why}: change it with silo topics update")
            if not self.file.unsaved_since:
                return Done()
        else:
            self._add(TopicConfig(name, queues, queues))
        self.file.save_now()
        return Done()

    def alter(self, request: Alter) -> Done:
        """Makes or changes a topic, as RocketMQ's updateTopic does.

        An attribute that is None stays as it is, or gets its default in a new topic. Folders and
        messages of queues that the topic no longer uses stay.
        """
        name = request.topic
        validate_topic(name)
        self._refuse_system(name)
        if why := bad_attribute(request.set_attributes):
            raise illegal(why)
        if is_light_queue(name) and not request.set_attributes.keys().isdisjoint(LIMITS):
            raise illegal(f"light queue {name} has no limits of its own: the store's hold for it")
        queues = self.settings.default_topic_queue_nums
        before = self.file.configs.get(name) or TopicConfig(name, queues, queues)
        after = changed(
            before, request.read_queues, request.write_queues, request.perm, order=request.order
        )
        after = replace(
            after,
            topic_filter_type=request.filter_type or before.topic_filter_type,
            topic_sys_flag=before.topic_sys_flag if request.sys_flag is None else request.sys_flag,
            attributes=attributes.changed(before.attributes, request),
        )
        self._check_queues(after.read_queue_nums)
        self._check_queues(after.write_queue_nums)
        if after.perm not in (WRITE, READ, WRITE | READ):
            raise illegal(f"perm {after.perm}: 2 (write), 4 (read) or 6 (both)")
        topic = self.table.find(name)
        if topic is None:
            self._add(after)
        else:
            self._apply(topic, after)
        self.file.save_now()
        return Done()

    def _apply(self, topic: Topic, config: TopicConfig) -> None:
        table_changes.grow(
            self.table, topic.index, max(config.read_queue_nums, config.write_queue_nums)
        )
        fault("registry:grown")
        self.table.set_topic(
            topic.index,
            perm=config.perm,
            read_nums=config.read_queue_nums,
            write_nums=config.write_queue_nums,
        )
        self.file.put(config)
        if not config.writable:
            self.table.revoke(topic.index, self.settings.max_sessions)
            fault("registry:revoked")
            await_round(self.control, "append", self.beat)

    def _refuse_system(self, name: str) -> None:
        if is_system_topic(name):
            raise illegal(f"topic {name} is the store's own: it cannot be changed or deleted")

    def _check_queues(self, queues: int) -> None:
        if not 1 <= queues <= self.settings.max_queues:
            raise illegal(f"{queues} queues: 1 to {self.settings.max_queues}")

    def _add(self, config: TopicConfig) -> Topic:
        name = config.topic_name
        if name in self.deleting:
            self._delete(self.deleting[name])
        self.makers.check_topic(name)
        topic = self.table.add_topic(
            name,
            write_nums=config.write_queue_nums,
            read_nums=config.read_queue_nums,
            perm=config.perm,
            since=self.deletions.below(name),
        )
        self.makers.made_topic(name, max(config.write_queue_nums, config.read_queue_nums))
        self.file.put(config)
        self.live += 1
        self.count_word.store(self.live)
        self.count_word.wake()
        return topic

    def save(self) -> None:
        """Saves what has changed, if it can be saved now."""
        self.file.save()
        if not self.file.unsaved_since:
            self.makers.tidy()

    # -- deleting

    def delete(self, request: Delete) -> Deleted:
        """Deletes a topic with its queues. No reader sees its messages again, and a new topic of
        that name starts with queue offset 0. Refused when a step fails; the request may be
        repeated.
        """
        name = request.topic
        validate_topic(name)
        self._refuse_system(name)
        topic = self.table.find(name)
        if topic is not None:
            self.table.set_topic(topic.index, state=TopicState.DELETING)
            self.deleting[name] = topic
            self.live -= 1
            self.count_word.store(self.live)
            fault("registry:deleting")
        there = name in self.deleting
        if there:
            self._delete(self.deleting[name])
        return Deleted(deleted=there)

    def _delete(self, topic: Topic) -> None:
        name, table = topic.name, self.table
        decided = self.deletions.topics.get(name)
        table.revoke(topic.index, table.max_sessions)
        await_round(self.control, "append", self.beat)
        try:
            if decided is None or decided.done:
                self.deletions.decide(name, self.control.load("wrote"), self._entries(topic))
            fault("registry:decided")
            table_changes.retire(table, topic.index)
            for slot in topic.slots:  # consumers that sleep on these queues find them deleted
                self.control.arrival(slot).wake()
            await_round(self.control, "reput", self.beat)
            self.file.configs.pop(name, None)
            self.file.save_now()
            fault("registry:unlisted")
            remove_queues(self.queue_folder, name)
            fault("registry:removed")
            self.deletions.finish(name, self._entries(topic))
        except OSError as error:
            self.logger.error("cannot delete a topic", topic=name, error=str(error))
            why = f"topic {name} is half deleted ({error.strerror}): delete it again"
            raise unavailable(why) from error
        fault("registry:finished")
        table_changes.end_deletion(table, topic.index)
        del self.deleting[name]
        self.makers.lost_topic(name)

    def _go_on_deleting(self, name: str) -> None:
        """Finishes a deletion that a killed registry had begun. If that fails, the next request to
        make or delete this topic tries again.
        """
        topic = self.deleting[name]
        decided = self.deletions.topics.get(name)
        if decided and decided.done and all(map(self.table.is_deleted, topic.slots)):
            table_changes.end_deletion(self.table, topic.index)
            del self.deleting[name]
            return
        self.logger.warning("goes on with the deletion of a topic", topic=name)
        try:
            self._delete(topic)
        except Refused as error:
            self.logger.error("a topic is half deleted", topic=name, error=str(error))

    def _entries(self, topic: Topic) -> int:
        return sum(self.table.queue_word(slot, "max_offset").load() for slot in topic.slots)

    # -- listing

    def topic(self, request: AskTopic) -> TopicFound:
        """One topic with its attributes. Refused if it does not exist."""
        validate_topic(request.topic)
        topic = self.table.find(request.topic)
        if topic is None:
            raise illegal(f"topic {request.topic} does not exist")
        return TopicFound(topic=self._entry(topic))

    def page(self, request: AskTopics) -> TopicsPage:
        """The live ones among 1,000 entries of the table, from entry `request.after` on. `next` is
        the entry at which the next page begins, -1 at the end.
        """
        count = self.table.topic_count
        end = min(request.after + _PAGE_TOPICS, count)
        page = [self.table.topic(i) for i in range(request.after, end)]
        return TopicsPage(
            topics=[self._entry(t) for t in page if t.state == TopicState.LIVE],
            next=end if end < count else -1,
            version=Version(**asdict(self.file.version)),
        )

    def _entry(self, topic: Topic) -> TopicEntry:
        config = self.file.configs[topic.name]
        return TopicEntry(
            topic=topic.name,
            index=topic.index,
            perm=topic.perm,
            write_queues=topic.write_queue_nums,
            read_queues=topic.read_queue_nums,
            order=config.order,
            filter_type=config.topic_filter_type,
            sys_flag=config.topic_sys_flag,
            attributes=dict(config.attributes),
        )


def changed(
    config: TopicConfig,
    read_nums: int | None,
    write_nums: int | None,
    perm: int | None,
    *,
    order: bool | None = None,
) -> TopicConfig:
    """A copy of the config with these values. None keeps the value that it has."""
    return replace(
        config,
        read_queue_nums=config.read_queue_nums if read_nums is None else read_nums,
        write_queue_nums=config.write_queue_nums if write_nums is None else write_nums,
        perm=config.perm if perm is None else perm,
        order=config.order if order is None else order,
    )
