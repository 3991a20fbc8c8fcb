"""Engines hand task numbers to plain functions."""
