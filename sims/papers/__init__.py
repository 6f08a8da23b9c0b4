"""The figures of each paper as plain data: title, script, settings."""
