"""Toy data, small models and runners that the tests share."""
