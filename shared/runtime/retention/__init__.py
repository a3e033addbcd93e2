"""What is removed when it is old enough, by the projector and by the broker."""
