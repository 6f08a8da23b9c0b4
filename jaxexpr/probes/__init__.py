"""Probes: one layer of one curve in one network -> one number."""
