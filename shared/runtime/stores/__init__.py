"""What is kept in KV and in the results stream, each with the one way to read and write it."""
