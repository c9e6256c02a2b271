"""What an operator watches: a store's figures for Prometheus, and for `silo top`.

A monitor is a client of the store: it reads shared memory (the control block, the metrics page, the
history) and asks the registry for what is not there (groups, brokers). It costs the processes that
move messages nothing.

**Names** (`families.py`) begin with `silomq_` and are in seconds and bytes. With
`--rocketmq-names` the values that RocketMQ's exporter has too come once more under its names
(`rocketmq_names.py`), so that its dashboards go on working.

**The dashboard** (`grafana.json`) asks for these names alone. A test runs each of its queries in a
Prometheus that has scraped a store.

**Few series.** Topics and groups come from clients, so their number has no bound. At most so many
have rows of their own, for as long as the exporter runs, and the others are summed in one row named
"other" (`rows.py`). A gauge says how many these are.

**Who may ask** (`server.py`): the server listens at a Unix socket or a loopback address, and
answers GET alone.
"""
