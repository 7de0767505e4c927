"""Scores of texts under a masked model: likelihoods in an order, pseudo-likelihood, bounds."""

from fairseq_gmlm.scoring.corpus import Total, perplexity
from fairseq_gmlm.scoring.packing import Frame, Queries, Text
from fairseq_gmlm.scoring.scorer import ExactScore, Scorer

__all__ = ["ExactScore", "Frame", "Queries", "Scorer", "Text", "Total", "perplexity"]
