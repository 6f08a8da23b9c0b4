"""Private foundations: they import nothing of the package above."""
