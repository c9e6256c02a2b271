"""The load-test harness: `silo bench` (docs/benchmarks.md is made from its results).

```
 workload (TOML) ──> plan ──> target: a server that runs in a folder of its own
                      │           │ endpoint
                      │           ▼
                      ├──> workers: processes that produce or consume  ──┐ a line of JSON a second
                      ├──> sampler: CPU, memory, page cache, disk      ──┤
                      └──> faults: kills, stops, a full disk           ──┤
                                                                         ▼
                                             result (JSON) ──> report (HTML), comparison
```

| room | holds |
|---|---|
| `results` | the file of results, its percentiles, the report, the comparison |
| `workload` | the file of a workload, as typed and bounded values; the workloads that are shipped |
| `load` | the workers: when a message is due, what it holds, how latencies are kept |
| `targets` | the servers that can be measured, each with what its acknowledgement means |
| `run` | one `silo bench run` |
| `suite` | interleaved runs of several targets, and the bars that they must reach |

A **worker** is a process that gets one `Order` on its standard input and writes one `Tick` a second
to its standard output (`load/protocol.py`). Clients in Python share one worker program; a client in
Java is a program of its own that keeps the same protocol. So every target is measured by the same
rules:

- *Open loop* (a rate is given): message number n is due at start + n / rate. Its latency counts
  from that time, not from the time at which the worker came to it. A stall therefore shows in every
  message that it delays. How late the worker was is kept apart as `delay`.
- *Closed loop* (no rate): a worker sends as fast as its window allows, and a latency counts from
  the call.
- Times are those of CLOCK_MONOTONIC in ns, which all processes of a machine share
  (`System.nanoTime` in Java). The first 8 bytes of a body are the time at which its message was
  due: a consumer takes the end-to-end latency from them.
- Latencies are kept in HdrHistograms of 1 us to 1 h with three digits, one for each second, so
  results can be added up without a loss.
"""
