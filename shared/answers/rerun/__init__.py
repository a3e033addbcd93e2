"""What a new execution takes over from an earlier one."""
