"""Labellings of points."""
