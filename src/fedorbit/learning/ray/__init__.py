"""Training on a Ray cluster: the engine of a run, and what its nodes do."""
