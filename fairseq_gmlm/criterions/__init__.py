"""Criterions; imported by the package, since fairseq does not look in here itself."""
