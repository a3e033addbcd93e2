"""The broker in memory, with the handles a simulator pulls. It keeps the same contract tests as JetStream."""
