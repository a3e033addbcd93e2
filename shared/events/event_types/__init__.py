"""The Structs of events, by who says them; `model` puts them together, and everybody takes them from there."""
