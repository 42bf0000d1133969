"""Where satellites are and whom they can see; NumPy and SGP4 only."""
