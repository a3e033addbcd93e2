"""What is on the wire: events, records, commands, requests, subjects and headers, and their bounds. Plain data and the
one way to decode each of them; nothing here knows what a playbook or an execution is."""
