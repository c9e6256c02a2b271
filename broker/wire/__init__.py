"""Frames, commands and codes of RocketMQ's remoting protocol, in both of its serialisations.

**A command is answered in the form in which it came.** RocketMQ's Java peers answer in their own
configured form. Clients in C++ and Node read JSON only, and Java and Go read both, so an answer in
kind suits everybody.

**What comes from outside is checked here.** A frame that lies about its lengths, or whose header
cannot be read, raises BadFrame: its connection is closed, because no later byte of it has a
meaning. Fields that do not fit a request raise BadHeader, which is answered.

**Values of `extFields` are text.** C++ and Node send numbers and booleans there; they are taken as
the text that stood on the wire, because signatures are computed over it. What is sent from here is
always a string: C++ ignores numbers.
"""
