"""Changes as messages of a Kafka topic: each change once, for readers of committed messages.

- `kafka_sink`: the sink, which calls the others, and tries again while another run fences it
- `kafka_options`: the keys of ``sink``
- `kafka_clients`: clients of the cluster, and their errors
- `topics`: topics of the cluster
- `topic_state`: the records that say what is delivered, their topic, and the producer that writes both
- `topic_batches`: the claim of a topic, and a batch that begins and ends
- `part_delivery`: one part in transactions
- `events`: changes as events, with keys and sources
- `message_format`: messages of events, by the options, and back
- `schemas`: their schemas, in a registry or in each message
- `retained`: the changes that the topic still holds

Why a change is in the topic once
---------------------------------

Three facts of Kafka carry the argument. A producer that calls ``init_transactions`` under a transactional id fences
every earlier producer of that id: their open transaction is aborted, and none of them commits again. When the call
returns, all their transactions are decided. And the messages of a transaction become visible together, in all topics.

*Within a batch.* A part is sent under the id ``<state topic>-part-<number>``. Its sender first begins as a producer,
then reads the state topic to its end, then sends the rows that the record ``part/<number>`` does not count. Each
transaction also writes that record anew. Let Z commit rows of a part at some time. Then no other sender began between
Z's beginning and that time, or Z would be fenced. What senders before Z committed was decided when Z had begun, so Z
read it, and sent none of it. Senders after Z read what Z committed. So rows are sent once, in order, whoever dies,
stops or wakes up in between. The record counts rows and no transactions: a sender with other bounds goes on as well.
The end of the state topic is asked for after the beginning, without regard to commits. A reader of committed messages
reaches it only when all transactions before it are decided, those of other parts too.

*Across batches.* A batch begins when all parts of the batch before are delivered. A zombie of these finds all rows
counted. If the batch before did not finish, because it was abandoned or reset, its senders may still have rows to send.
Then ``begin`` first writes its own number into the record ``batch``, and then begins as a producer under the id of
every part number that was ever used. Senders that began before are fenced. Senders that begin later read the record,
and stop. A sender whose number was never used writes its record alone first and reads the state again: either
``begin`` finds the number, or the sender finds the new batch.

*Across owners.* A take-over writes the record ``claim`` with the next generation, at which all senders of the
generation before stop. The first batch of a generation fences all part numbers too. It writes its number only when it
opens, so that each of its tries finds a batch of the owner before, and sets the offsets of its own rows.

Claims and batches are decided under one id, ``<state topic>-decides``: of several at once, the one that began last
reads the decisions of the others.

*Order.* All changes of a key are in one part, in order, and in one partition, the one that the hash of its bytes
names. The number of partitions is asked for before each commit. It only grows, so if it still is the number that
``begin`` recorded, no message of the transaction was placed by another one.
"""
