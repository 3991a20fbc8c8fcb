"""Changes as messages of a Kafka topic: each change once, for readers of committed messages.

- `kafka_sink`: the sink: the claim of a topic, and a batch that begins and ends
- `part_sender`: one part in transactions
- `kafka_clients`: the keys of ``sink``, clients, and their errors
- `topics`: topics of the cluster
- `topic_state`: the records of what is delivered, and their producer
- `message_format`: messages of events, and back from what the topic still holds
- `schemas`: their schemas

Why a change is in the topic once
---------------------------------

A producer that calls ``init_transactions`` under a transactional id fences every earlier producer of that id: their
open transaction is aborted, and none commits again. When the call returns, all their transactions are decided. And the
messages of a transaction become visible together, in all topics.

*Within a batch.* A part is sent under the id ``<state topic>-part-<number>``. Its sender begins as a producer, reads
the state topic to its end, and sends the rows that the record ``part/<number>`` does not count. Each transaction also
writes that record. Let Z commit rows of a part. No other sender began between Z's beginning and that commit, or Z would
be fenced. Commits of earlier senders were decided when Z began, so Z read them. Later senders read what Z committed. So
rows are sent once, in order, whoever dies, stops or wakes up. The record counts rows, not transactions: a sender with
other bounds goes on as well. The end of the state topic is asked for after the beginning, committed or not: a reader of
committed messages reaches it only when all earlier transactions are decided.

*Across batches.* A batch begins when all parts of the batch before are delivered; their zombies find all rows counted.
Senders of an abandoned or reset batch may still have rows. So ``begin`` first writes its own number into the record
``batch``, and then begins as a producer under the id of every part number that was ever used. Senders that began before
are fenced; later ones read the record, and stop. A sender whose number was never used writes its record alone first and
reads the state again: either ``begin`` finds the number, or the sender finds the new batch.

*Across owners.* A take-over writes the record ``claim`` with the next generation, at which all earlier senders stop.
The first batch of a generation fences all part numbers too. It writes its number only when it opens, so that each of
its tries finds a batch of the owner before, and sets the offsets of its own rows.

Claims and batches are decided under one id, ``<state topic>-decides``: of several at once, the last to begin reads the
decisions of the others.

*Order.* All changes of a key are in one part, in order, and in one partition, by the hash of its bytes. The number of
partitions only grows and is asked for before each commit: if it is the number that ``begin`` recorded, it placed all
messages of the transaction.
"""
