"""How much is measured: all, or a short form for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amounts:
    """How long and how much of each kind of work is done for one server in one round."""

    #: Options of each JVM: RocketMQ's name server and broker, and the client.
    java: tuple[str, ...] = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
    warm_ms: int = 4000
    time_ms: int = 5000
    drain_warm: int = 100_000
    drain: int = 500_000
    paced_warm: int = 5000
    paced: int = 10_000
    #: Clients that are connected while a server is idle, for so long after so long.
    clients: int = 1000
    settle_s: float = 10.0
    idle_s: float = 30.0
    beat_every_s: float = 30.0
    #: Idle connections: ours, and RocketMQ's.
    connections: int = 10_000
    connections_beside: int = 1000
    #: Sends of the generator that is no JVM, and those before that are not measured.
    sends: int = 409_600
    sends_warm: int = 102_400
    lone: int = 20_000


FULL = Amounts()
SHORT = Amounts(
    java=("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),  # which starts sooner
    warm_ms=100,
    time_ms=300,
    drain_warm=256,
    drain=2560,
    paced_warm=100,
    paced=300,
    clients=50,
    settle_s=0.0,
    idle_s=1.0,
    beat_every_s=1.0,
    connections=200,
    connections_beside=50,
    sends=5120,
    sends_warm=512,
    lone=200,
)
