"""Where satellites are and what they can see; NumPy and SGP4 only."""
