"""OpenSearch as the demo starts it: tests find all of their servers in this folder."""

from demo.servers.opensearch import OpenSearch

__all__ = ["OpenSearch"]
