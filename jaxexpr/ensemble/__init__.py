"""Estimates over many random networks: the tasks, and the runner that runs them."""
