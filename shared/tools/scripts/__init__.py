"""Programs that are loaded when a task runs (`script:`), and where they are kept."""
