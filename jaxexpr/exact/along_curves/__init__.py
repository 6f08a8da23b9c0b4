"""Pieces of fully connected networks along lines, arcs and circles: JAX, arrays of fixed size."""
