"""One `silo bench run`: server, workers, sampler and faults brought together, and the result.

| module | does |
|---|---|
| `catalog.py` | the targets by name |
| `plan.py` | what a step of a workload asks of the server and of each worker |
| `crew.py` | starts the workers, hears what they say, ends them |
| `tally.py` | adds up what they say: by second, and over the measured part |
| `sampler.py` | CPU, memory, open files, page cache, disk writes, once a second |
| `pauses.py` | the times in which the machine itself stood still |
| `faults.py` | kills, stops, a full disk, paused consumers |
| `page_cache.py` | a cold page cache, and how cold it is |
| `measure.py` | one run of one step, from the start of the server to its end |
| `session.py` | all runs of a workload, the limits, the result |
| `live.py` | what is shown meanwhile |
| `machine.py`, `limits.py` | where it was measured, and what the machine itself can do |
"""
