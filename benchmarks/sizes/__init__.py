"""What a step costs at every size: long chains and loops, large payloads, many workers, a log full of history."""
