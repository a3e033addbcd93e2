"""What the router decides for one execution: tokens, joins, arcs, compensation, cancelling and pausing, the end."""
