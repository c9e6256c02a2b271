"""`silo names`: a stand-alone name server, to which RocketMQ's brokers register as well as ours.

A name server tells clients which brokers have a topic. All that it knows comes from the brokers,
which register every 30 s and before each change, so it keeps nothing on the disk but key-value
settings. Brokers register with every name server, and name servers do not know each other.

**A broker is forgotten** when its connection closes, or when it has not registered for 120 s: then
its addresses go, and with the last address of a name the queues that it had. Clients keep their old
routes as long as an answer says TOPIC_NOT_EXIST.

**What a broker says is believed**, as RocketMQ does: whoever may connect can register a broker of
any name, and take over its traffic. So `silo names` listens on loopback unless `--open` says that
everybody who can reach the port may do that.

Sources: RocketMQ's `RouteInfoManager`, `DefaultRequestProcessor`, `ClientRequestProcessor`.
"""
