"""The report of an experiment: numbers, a table, and a page that needs no other file."""
