"""What a chain does to its sentences: error modes, dependence, complexity of data, traces."""
