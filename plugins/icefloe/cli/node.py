"""``icefloe node``: serve the map outputs of this machine."""

import signal
import threading
from argparse import Namespace

from icefloe.cli.screen import Screen
from icefloe.node.node_config import load_node_config
from icefloe.node.serve import drain_node, refill_node, serve_node


def node(arguments: Namespace, screen: Screen) -> int:
    """Serves until SIGTERM or SIGINT, or drains or refills the folder of this machine.

    Raises:
        NodeConfigError: the configuration is missing or wrong.
        TransientError: the port is taken, or a certificate is wrong.
    """
    config = load_node_config(arguments.config)
    if arguments.drain:
        files = drain_node(config)
        screen.say(
            f"nothing new is written to {config.address}; batches that are not committed yet need {files:,} files"
        )
        return 0
    if arguments.refill:
        refill_node(config)
        screen.say(f"tasks write to {config.address} again")
        return 0
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        serve_node(config, stop, say=screen.say)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0
