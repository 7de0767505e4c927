"""Comparing systems: the same data, the same scoring, the same clock."""
