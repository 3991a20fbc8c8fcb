"""Map outputs on the disks of the machines that made them (``shuffle: {transfer: nodes}``).

A map task writes its data file to a folder of its own machine, and everything else to the store. ``icefloe node``
serves that folder to readers. One request brings all bytes that a reader wants of one machine:

    map task -> folder of its machine -> icefloe node ==(Arrow Flight, TLS both ways)==> range 0, range 1, ...

A node decides nothing. Readers know from the commit records which bytes to expect, and check them. If a node does not
answer, or answers other bytes, its map outputs are void. They are made again and go to the store.

Read in this order:

- `node_config`: the file by which a machine knows its folder, its address and its certificates
- `messages`: names of files at nodes, the request of a reader and the answer of a node
- `node_folder`: the folder of one machine, its writers and its readers
- `node_server`: ``icefloe node`` until it is stopped
- `node_client`: asks nodes
- `machine`: the nodes as a task of this machine sees them
"""

__all__ = ["machine", "messages", "node_config", "node_server"]
