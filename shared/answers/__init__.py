"""What a log says about an execution. Pure, and nothing here decides anything: these rooms read what the engine
wrote."""
