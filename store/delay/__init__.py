"""Delayed messages: delay levels, timers, and how far their delivery has come.

A delayed message is stored as RocketMQ stores it: with a level (DELAY) in SCHEDULE_TOPIC_XXXX,
queue level - 1; with any other time in rmq_sys_wheel_timer, queue 0. There TIMER_OUT_MS is the time
rounded down to the second, as RocketMQ rounds it, and TIMER_DELIVER_MS is exact and the one that
counts here. REAL_TOPIC and REAL_QID say where the message goes.

**Timers** lie in a file for each minute (`silomq/timer/`), 40 bytes a message, in the order of the
timer topic's queue. Only the 20,000 that are due next within seconds are in memory.

**Exactly once.** RocketMQ delivers up to 10 s of messages again after a crash. Here
`silomq/schedule`, a mapped file that outlives the processes, holds the next queue offset of each
level, how many timers are in files, and `scan_from`. Append answers frames in the order of the log
and progress counts answers in that order. So all deliveries below `scan_from` are in the progress,
and none above it. A new schedule process

1. waits until append has answered every frame of the schedule's ring;
2. looks through the log from `scan_from` to `wrote` (`_delivered.pyx`) for records that came out of
   a delay. It remembers what each has in common with the waiting record: UNIQ_KEY, destination,
   level or time, birth, reconsume times, body;
3. sends no message again that it found there, and publishes nothing until all of them are
   recognised.

A timer's entry is marked with the place of its delivery before the progress is published. Marks at
or above `scan_from` are ignored; those deliveries are found in the log. When no delivery is on its
way, `scan_from` follows `wrote` once a second, so there is little to look through.

**Power cuts.** Mapped pages may know more than the log that survived. A slot whose `scan_from` lies
behind the log's end does not count. Every 10 s a slot is written that is never ahead: its
`scan_from` lies below `flushed`, and the timers' files are synced first. A minute's file is removed
when such a slot covers its last delivery. `config/delayOffset.json` is written with it and at a
stop; the greater of file and slot counts, because RocketMQ may have had the store since.
"""
