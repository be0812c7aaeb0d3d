"""What lies in a person's folders and tables, by name."""
