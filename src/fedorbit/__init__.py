"""Personalised federated learning for non-IID LEO satellite constellations."""

from importlib.metadata import version

__version__ = version("fedorbit")
