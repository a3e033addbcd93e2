"""The beginning of a playbook whose test is about the rest of it."""


def head(name: str, path: str = "") -> str:
    place = f", path: {path}" if path else ""
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}{place}}}\n"
