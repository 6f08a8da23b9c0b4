"""One network and one curve: which method a probe takes, and its numbers."""
