"""The pools service: makes worker pools what their documents want."""
