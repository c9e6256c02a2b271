"""Going on without what a commit log has lost, for `silo repair --holes` and `silo verify`.

`log_damage.py` finds the gaps,
`misplaced_records.py` those records that only look good, `lost_messages.py` the messages that were
there, and `hole_filling.py` makes what stands in their place. RocketMQ knows nothing of holes. An
end-of-file record would make it skip all that is good behind it in the file, and an entry of size 0
ends its queue. So each lost message gets a stand-in: a record of its queue and queue offset. Then
queue offsets stay what they were, also when queues are built anew, and acknowledged offsets stay
valid. Only `holes.json` (`store/commitlog/holes.py`) tells stand-ins from messages. It is declared
before anything is overwritten. To mark stand-ins in the log alone was rejected: a reader would have
to parse each record's properties.
"""
