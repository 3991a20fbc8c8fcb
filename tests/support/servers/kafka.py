"""Kafka as the demo starts it: tests find all of their servers in this folder."""

from demo.servers.kafka import Kafka

__all__ = ["Kafka"]
