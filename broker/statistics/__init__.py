"""What a broker has done, in figures: for `silo status`, and for RocketMQ's tools.

The compiled paths count in memory of their own (`_counters.pyx`). Once a second the broker reads
these counters, and makes rates of them. Everything is bounded: beyond a number of topics and groups
all further ones share one counter that nobody is shown.
"""
