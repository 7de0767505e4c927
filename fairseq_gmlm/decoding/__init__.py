"""Decoding: one chain, one generator, and strategies as small objects."""
