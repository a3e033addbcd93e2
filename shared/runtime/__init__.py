"""What services are made of, on a broker: their shell, their stores, the embedded stack, backups."""
