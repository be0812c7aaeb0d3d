"""What programs need of the machine that they run on: files, signals, processes, output."""
