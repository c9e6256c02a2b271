"""Who may do what: RocketMQ's signatures, its accounts, and the permissions that requests need.

The accounts are RocketMQ's own file (`plain_acl.yml`), which is read again when it changes. A new
version with an error is not taken: the one before stays in force, and the log says why.

**Each request is checked on its own.** A connection has no account: the fields `AccessKey` and
`Signature` of a request name one and prove it (`signatures.py`). What a request needs stands in one
table (`needs.py`). A code that the table lacks needs an administrator, so a new request is closed
until somebody decides.

**What differs from RocketMQ.** A message that is looked up or sent back by its offset may be of any
topic: its reader needs SUB of the topic that it has. A message for a retry topic is checked by the
group in the topic's name, not by the group that the request names. Topics in which messages of all
others wait are in no account's default.

**RocketMQ 5's users and rules** are the same accounts, told and changed by RocketMQ's own mapping
(`users.py`). So a proxy of RocketMQ may check its clients by them.

**Fast paths are behind the same check.** `CheckedFastPath` stands before whatever serves frames
without Python. It shares the table, and leaves every refusal to the general way.

None of this exists in a broker without access control: its requests are not looked at.
"""
