"""Map outputs on the disks of the machines that made them (``shuffle: {transfer: nodes}``).

A map task writes its data file to a folder of its machine, everything else to the store. ``icefloe node`` serves that
folder, all bytes that a reader wants in one request:

    map task -> folder of its machine -> icefloe node ==(Arrow Flight, TLS both ways)==> range 0, range 1, ...

A node decides nothing. If it does not answer, or its bytes are not those of the commit records, its map outputs are
void. They are made again and go to the store.

Read in this order:

- `node_config`: a machine's folder, address and certificates
- `node_folder`: names of files, requests and answers; the folder of one machine
- `node_server`: ``icefloe node`` until it is stopped
- `node_counts`: what the node served, for Prometheus and StatsD, and its health
- `node_client`: asks nodes
- `machine`: the nodes as a task of this machine sees them
"""

__all__ = ["machine", "node_config", "node_folder", "node_server"]
