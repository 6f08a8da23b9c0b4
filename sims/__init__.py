"""Simulations: one for each figure of the papers. ``python -m sims list`` names them."""
