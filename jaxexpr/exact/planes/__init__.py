"""Regions of a plane through the input space: polygons cut in rounds, in NumPy."""
