"""Regions of a box, of all inputs or of a ball: cells with all their faces, in NumPy."""
