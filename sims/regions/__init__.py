"""Regions, lines and constructions."""
