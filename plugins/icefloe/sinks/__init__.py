"""Destinations of changes."""
