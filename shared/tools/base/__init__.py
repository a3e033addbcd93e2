"""What tools share: the contract, the guard around every call, processes and their wardens, turns, bodies and
charsets."""
