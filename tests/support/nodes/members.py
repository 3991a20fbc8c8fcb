"""Members of the nodes' authority, those that only claim to be members, and the certificate that a node shows."""

import socket
import ssl
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from icefloe.node.node_config import NodeConfig
from support.servers.private_authority import PrivateAuthority

__all__ = ["is_shown", "member", "strangers"]


def member(authority: PrivateAuthority, **keys: Any) -> NodeConfig:
    """The configuration of a process with a certificate of its own."""
    own = authority.issue(**keys)
    return NodeConfig(version=1, certificate=own, key=own, authority=authority.bundle)


def strangers(authority: PrivateAuthority, place: Path) -> dict[str, NodeConfig]:
    """Configurations that no node of the authority may answer, by what is wrong with them."""
    other = PrivateAuthority.create(place / "other")
    return {
        "signed by another authority": replace(member(other), authority=authority.bundle),
        "expired": member(authority, ends_in=timedelta(days=-1)),
        "of a reader that trusts another authority": replace(member(authority), authority=other.bundle),
    }


def is_shown(holder: str, config: NodeConfig, own: Path) -> bool:
    """True if the node shows the certificate of a holder; False if it shows another one or does not answer."""
    host, _, port = str(config.address).partition(":")
    context = ssl.create_default_context(cafile=str(config.authority))
    context.load_cert_chain(own)
    try:
        with (
            socket.create_connection((host, int(port)), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            shown = str(tls.getpeercert())
    except OSError:
        return False
    return holder in shown
