"""Mutations of the node-local shuffle."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["NODES"]

_FOLDER: Final = ("tests/node/test_node_folder.py",)
_SERVER: Final = ("tests/node/test_node_server.py",)
_CLIENT: Final = ("tests/node/test_node_client.py",)
_STRANGERS: Final = ("tests/node/test_strangers.py",)
_RENEWED: Final = ("tests/node/test_serve.py",)
_BATCHES: Final = ("tests/node/test_lost_nodes.py", "tests/node/test_node_batches.py")

NODES: Final = (
    Mutation(
        name="a value that YAML cannot make ends a node with a traceback",
        path="node/node_config.py",
        before="    except _UNREADABLE as cause:\n",
        after="    except (OSError, UnicodeDecodeError, yaml.YAMLError) as cause:\n",
        suite=("tests/node/test_node_config.py",),
    ),
    Mutation(
        name="a long text of digits ends a reader of numbers",
        path="units.py",
        before='"[0-9]{1,19}"',
        after='"[0-9]+"',
        suite=("tests/test_units.py", "tests/iceberg/history/test_expiry.py"),
    ),
    Mutation(
        name="a node reads any path",
        path="node/node_folder.py",
        before="        if not PATH.fullmatch(piece.path):\n            return",
        after="        if False:\n            return",
        suite=_SERVER,
    ),
    Mutation(
        name="a node answers bytes that no commit record names",
        path="node/node_folder.py",
        before="        if not 0 <= piece.start <= piece.stop <= piece.size_bytes:",
        after="        if False:",
        suite=_SERVER,
    ),
    Mutation(
        name="a node follows links",
        path="node/node_folder.py",
        before=" | os.O_NOFOLLOW",
        after="",
        suite=_SERVER,
    ),
    Mutation(
        name="a node takes readers without a certificate",
        path="node/node_server.py",
        before='"verify_client": True',
        after='"verify_client": False',
        suite=_SERVER,
    ),
    Mutation(
        name="a reader trusts the offsets of an answer",
        path="node/messages.py",
        before="    if at + sum(length for *_, length in heads) != len(message):",
        after="    if False:",
        suite=_CLIENT,
    ),
    Mutation(
        name="an answer keeps its place for ever",
        path="node/node_server.py",
        before="            self._free.release()",
        after="            pass",
        suite=_SERVER,
    ),
    Mutation(
        name="any number of requests waits in a node",
        path="node/node_server.py",
        before="if not self._queue.acquire(blocking=False):",
        after="if not self._queue.acquire():",
        suite=_SERVER,
    ),
    Mutation(
        name="a node without a free file loses its map outputs",
        path="node/node_folder.py",
        before="            if error.errno in _EXHAUSTED:",
        after="            if False:",
        suite=_SERVER,
    ),
    Mutation(
        name="a disk that fails while it is read ends the task that reads",
        path="node/node_folder.py",
        before="    except OSError as error:\n        yield PieceFault(",
        after="    except ZeroDivisionError as error:\n        yield PieceFault(",
        suite=_FOLDER,
    ),
    Mutation(
        name="half of a renewal is used",
        path="node/serve.py",
        before="if found != pem and _is_usable(config, folder, found):",
        after="if found != pem:",
        suite=_RENEWED,
    ),
    Mutation(
        name="a node that changes its port reads its certificates once more",
        path="node/serve.py",
        before="            started = _started(config, folder, pem)",
        after="            started = _started(config, folder, config.pem())",
        suite=_RENEWED,
    ),
    Mutation(
        name="a reader takes a message of any length",
        path="node/node_client.py",
        before='    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),\n',
        after="",
        suite=_CLIENT,
    ),
    Mutation(
        name="a reader unpacks what a node has compressed",
        path="node/node_client.py",
        before='    ("grpc.per_message_decompression", 0),\n',
        after="",
        suite=_CLIENT,
    ),
    Mutation(
        name="the words of a node go to the terminal as they are",
        path="node/node_client.py",
        before="    return repr(",
        after="    return str(",
        suite=_CLIENT,
    ),
    Mutation(
        name="a connection without a request stays",
        path="node/node_server.py",
        before="now - at > _STRANGER_SECONDS",
        after="False",
        suite=_STRANGERS,
    ),
    Mutation(
        name="silent connections take all open files of a node",
        path="node/node_server.py",
        before="max(0, too_many, sum(",
        after="max(0, sum(",
        suite=_STRANGERS,
    ),
    Mutation(
        name="a node ends the connection of a member",
        path="node/node_server.py",
        before=" for each in found if each not in self.members}",
        after=" for each in found}",
        suite=_STRANGERS,
    ),
    Mutation(
        name="a node without a free file ends",
        path="node/serve.py",
        before="        except (OSError, RuntimeError, MemoryError) as error:",
        after="        except ZeroDivisionError as error:",
        suite=_STRANGERS,
    ),
    Mutation(
        name="a node that is busy for ever is never lost",
        path="batch/lost_nodes.py",
        before="refusals[node.address] > 1",
        after="False",
        suite=_BATCHES,
    ),
    Mutation(
        name="a node that is busy for one task is lost",
        path="batch/lost_nodes.py",
        before="refusals[node.address] > 1",
        after="True",
        suite=_BATCHES,
    ),
    Mutation(
        name="a certificate that is gone for a moment ends a task that reads",
        path="node/node_client.py",
        before="            except NodeConfigError:",
        after="            except ZeroDivisionError:",
        suite=_CLIENT,
    ),
    Mutation(
        name="an output that is made again goes to a node",
        path="node/machine.py",
        before="if not self._keeps_outputs or generation or",
        after="if not self._keeps_outputs or",
        suite=_BATCHES,
    ),
    Mutation(
        name="a map output of a batch that is over stays at its node",
        path="batch/fenced_store.py",
        before="                    machine.take_back()",
        after="                    pass",
        suite=_BATCHES,
    ),
    Mutation(
        name="a node that lost one output keeps the others",
        path="shuffle/node_outputs.py",
        before="for each in files if node_of(each) == address)",
        after="for each in files if each is file)",
        suite=_BATCHES,
    ),
    Mutation(
        name="a node that changed a byte keeps its other outputs",
        path="shuffle/node_outputs.py",
        before="    return _lost(files, file, damage.reason) if is_node_key(file.data_key) else damage",
        after="    return damage",
        suite=_BATCHES,
    ),
    Mutation(
        name="one lost node is made again at a time",
        path="shuffle/node_outputs.py",
        before="for each in losses for node in each.nodes)",
        after="for each in losses[:1] for node in each.nodes)",
        suite=_BATCHES,
    ),
    Mutation(
        name="a full disk of a node ends the map task",
        path="node/node_folder.py",
        before="            return False\n        return True",
        after="            raise\n        return True",
        suite=_FOLDER,
    ),
    Mutation(
        name="files of a dead batch never expire",
        path="node/node_folder.py",
        before="if file.stat().st_mtime < before:",
        after="if False:",
        suite=_FOLDER,
    ),
    Mutation(
        name="cleanup leaves the files at nodes",
        path="batch/commit/cleanup.py",
        before="    _delete_at_nodes(batches, keys)",
        after="    pass",
        suite=_BATCHES,
    ),
    Mutation(
        name="a node without its port stays up and serves nobody",
        path="node/serve.py",
        before="if seconds >= _MOST_SECONDS_WITHOUT_PORT:",
        after="if False:",
        suite=_RENEWED,
    ),
)
