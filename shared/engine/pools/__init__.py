"""What a worker pool needs done, and which pool a step gets."""
