"""noetlctl. Layers, from the top: commands, feature rooms, executions, playbooks, stack, console."""
