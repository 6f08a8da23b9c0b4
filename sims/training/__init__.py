"""Networks that are trained."""
