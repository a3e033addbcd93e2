"""A constant load for a minute: what the engine holds, and whether the read model keeps up."""
