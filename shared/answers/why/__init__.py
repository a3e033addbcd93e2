"""Why an execution is not running: every reason, from its log and from what is known of the world around it."""
