"""What is said of examples by models that did not see them, and the noise that it shows."""
