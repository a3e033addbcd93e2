"""What a JSON Web Token says, as JSON. Nothing is checked: that is the server's."""

from base64 import urlsafe_b64decode


def body(token: str) -> bytes:
    """Raises ValueError for what has not the shape of one."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("not a token")
    return urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
