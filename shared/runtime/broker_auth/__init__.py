"""How a broker is told who may do what: users and accounts in its configuration, or signed by an operator."""
