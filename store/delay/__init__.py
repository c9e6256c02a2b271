"""Delayed messages: delay levels, timers, and the progress of their delivery.

A delayed message is stored as RocketMQ stores it: with a level (DELAY) in SCHEDULE_TOPIC_XXXX,
queue level - 1; with any other time in rmq_sys_wheel_timer, queue 0. A timer's TIMER_OUT_MS is the
time rounded down to the second, as in RocketMQ. Its TIMER_DELIVER_MS is the exact time, at which
the store delivers it. REAL_TOPIC and REAL_QID name the destination.

**Levels** are a setting, as in RocketMQ. The due time is in the queue entry; `levels.py` has the
rules for entries that a changed setting or clock has made wrong. Each level has a queue, so a
setting with more levels gives the topic more queues, before the schedule process opens them. The
schedule process reads all queues that the topic has: none of their messages is lost while the
setting has fewer levels.

**Timers** lie in one file for each minute (`silomq/timer/`), 40 bytes a message, in the order of
the timer topic's queue. Only the next 20,000 that are due within seconds are in memory.

**Cancels** are records of the timer topic (`cancelling.py`). A message whose cancel was stored
before it was due is never delivered. For that the schedule process reads the timer topic before it
delivers: until it has read all, no timer that is due later than the store time of the last record
that it has read. A cancelled entry is marked as done before the progress counts the cancel, so a
successor reads the cancel again and finds nothing left to do. Each entry has a checksum of its
message's UNIQ_KEY: among millions of one time only the records of a few are read.

**RocketMQ** takes over what waits (`rocketmq_timers.py`, and delayOffset.json for the levels). Its
checkpoint of timers says one place in the timer topic: that of the first message that waits. So
messages behind it that were delivered here are delivered again by RocketMQ. Writing its wheel and
its timer log as well would avoid that. But their sizes are settings of RocketMQ's broker, which
does not start with others, and it takes any message at least once anyway.

**Exactly once.** RocketMQ delivers up to 10 s of messages again after a crash. Here the progress is
in `silomq/schedule`, a mapped file that outlives the processes. It holds the next queue offset of
each level, the queue offset up to which timers are in files, and `scan_from`. Append answers frames
in the order of the log, and the schedule process adds them to the progress in that order. So all
deliveries below `scan_from` are in the progress, and none at or above it. A new schedule process

1. waits until append has answered every frame of the schedule's ring;
2. scans the log from `scan_from` to `wrote` (`_delivered.pyx`) for delivered records. It keeps the
   identity of each, which the waiting record shares: UNIQ_KEY, destination, level or time, time of
   birth, reconsume times, flag, checksum and length of the body;
3. sends none of these messages again, and publishes no progress until it has recognised all of
   them.

A timer's entry is marked with the log offset of its delivery before the progress is published.
Marks at or above `scan_from` are ignored, because the scan finds those deliveries. While no
delivery is under way, `scan_from` follows `wrote` once a second, so the scan stays short.

**Power cuts.** The mapped progress may be ahead of the log, and of the timers' files, that survived
a power cut. So every 10 s the schedule process also writes a durable slot that is never ahead: its
`scan_from` is not above `flushed`, and the timers' files are synced first. The first start in
another boot of the machine clears all slots but these. A slot counts only if its `scan_from` is not
behind the log's end. A minute's file is removed when a durable slot covers its last delivery.
`config/delayOffset.json` is written with the slot and at a stop. A start uses the greater of file
and slot, because RocketMQ may have run on the store since.
"""
