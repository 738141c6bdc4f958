"""Key groups of state, and the number of its partitions: what is aimed at, and how it is done."""
