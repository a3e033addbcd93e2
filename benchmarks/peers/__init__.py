"""The same work on other engines, each in its own way, beside ours in one sitting: peers.md says how."""
