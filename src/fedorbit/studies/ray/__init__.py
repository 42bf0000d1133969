"""Studies on a Ray cluster: one task per run, on nodes that were checked before."""
