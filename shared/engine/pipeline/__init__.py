"""What happens to a run in the hands of one worker: its tasks, their policies, local loops and claims of rows."""
