"""What the services share. Layers, from the top: runtime, bus and tools, answers, engine, dsl, events, errors."""
