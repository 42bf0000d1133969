"""Figures and tables for people and other programs."""
