"""`python -m silomq.bench.broker`: the broker beside RocketMQ's."""

from __future__ import annotations

from .run import main

main()
