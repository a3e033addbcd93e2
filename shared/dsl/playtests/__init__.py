"""Tests of playbooks (`kind: Test`): their documents and what they expect. Running them is not done here."""
