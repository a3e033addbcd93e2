"""The events of a formal step: what its `case`, its sinks and its `next` become."""
