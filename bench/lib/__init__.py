"""What the benches share. Python's standard library only."""
