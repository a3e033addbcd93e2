"""Playbooks and other documents from files, and what is said about them."""
