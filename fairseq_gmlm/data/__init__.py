"""Corpora and data-bins on disk: cleaning, tokenising, subwords, distillation, averaging."""
