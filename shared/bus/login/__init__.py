"""How a client shows a broker who it is, and knows that it is the broker: keys, files, TLS."""
