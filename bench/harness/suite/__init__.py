"""Suites: measurements of several targets in interleaved runs, and the bars that they must reach.

| module | does |
|---|---|
| `suite.py` | every key of a suite's file, and how it is read; `bars.toml` is the shipped one |
| `kept.py` | the folder with one result for each part and target, which a later call continues |
| `interleaved.py` | the runs: part by part, in it round by round, in it target by target |
| `verdicts.py` | each bar beside what was measured |

A machine changes from one minute to the next. So each round of a part runs all its targets one
after the other, and a ratio compares medians of rounds. What was measured is written after each
run: an interrupted suite goes on where it was.
"""
