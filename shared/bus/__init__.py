"""The broker behind ports: `ports` says what is asked of it, JetStream and memory keep it. Nothing here knows of
executions."""
