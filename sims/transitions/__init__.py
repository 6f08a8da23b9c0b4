"""Transitions of units along curves."""
