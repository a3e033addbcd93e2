"""What the services share: events, language, engine, bus, tools, runtime."""
