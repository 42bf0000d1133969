"""Positions of satellites, contacts, links and routes; NumPy and SGP4 only."""
