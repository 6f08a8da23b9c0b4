"""Pieces of any JAX function between two points: its equations followed in NumPy."""
