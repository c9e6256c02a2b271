"""The broker beside RocketMQ's (`make bench-broker`): the same work by the same clients.

Each round starts RocketMQ's name server and broker, measures them, and stops them. Then it does the
same with a store and `silo broker`. The two never run at the same time, and each round has new
stores, so the first round's figures are as good as the last's. Each server is warmed up before a
figure is taken: a JVM compiles what it runs often.

Most figures are taken by RocketMQ's published Java client (`java/`), whose own work is in every
latency and shares the CPUs with the server. The last ones are taken by a small generator of
requests (`_load.pyx`). CPU time is that of all processes of a server: RocketMQ's broker and name
server, or `silo broker` and all processes of the store. It is taken while the measured part of the
work runs, not while the server starts or warms up.

Memory is what a server's processes have for themselves: anonymous pages and shared memory
(`Pss_Anon` and `Pss_Shmem` of `smaps_rollup`), without mapped files. A page that several processes
of the server share counts once.
"""
