"""Transactions of a producer on the machine of the store: `TransactionProducer`.

The half of a message goes through the producer's ring into RMQ_SYS_TRANS_HALF_TOPIC, and so does
its decision into a topic of decisions. So `commit` and `rollback` return when the decision is as
durable as a message, and no process has been asked. The process `transactions` of the store then
moves the message (`store/transactions`).

A check is a half that the store has put there once more. A thread of the producer reads the half
topic, and calls back for those of its group (`checks.py`). If several producers of a group run,
each is asked, and the first decision counts.
"""
