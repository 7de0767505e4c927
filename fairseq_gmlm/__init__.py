"""Generative masked language models for fairseq."""
