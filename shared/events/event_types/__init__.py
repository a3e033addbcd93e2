"""The Structs of events, by who writes them; `model` puts them together, and everybody imports them from there."""
