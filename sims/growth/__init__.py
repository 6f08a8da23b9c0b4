"""How lengths grow from layer to layer."""
