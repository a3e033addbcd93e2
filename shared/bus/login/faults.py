"""Why a broker cannot be reached with these settings, in the words of the settings. What nobody here is sure of is
left to the general "no answer": it may be over in a moment."""

import ssl

import msgspec
from msgspec import Struct

from shared.bus.login import jwt
from shared.bus.login.files import CA, CERT, CREDS, KEY, NKEY, BadLogin, LoginFiles, read_creds
from shared.events.stamp import stamp

TLS_FIRST = "NOETL_NATS_TLS_FIRST"
_OF_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "HANDSHAKE_FAILURE")
_NO_HANDSHAKE = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "UNKNOWN_PROTOCOL")


class Claims(Struct):
    """Of a JWT, what is looked at here."""

    exp: int = 0


def explain(error: Exception, files: LoginFiles) -> str:
    """Empty: it is not a matter of settings, or nobody knows."""
    if isinstance(error, BadLogin):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrusted(error, files)
    if isinstance(error, ssl.SSLError):
        return _handshake(error, files)
    said = str(error).lower()
    if "authorization violation" in said or "authentication expired" in said:
        return _unknown(files)
    return ""


def hint(error: Exception, files: LoginFiles) -> str:
    """What may be behind the silence of a server that was reached."""
    if not isinstance(error, TimeoutError) and "empty response" not in str(error):
        return ""
    if files.tls_first:
        return f" ({TLS_FIRST} is set: has the server `handshake_first: true`?)"
    return f" (a server with `handshake_first` says nothing until {TLS_FIRST} is true)"


def _distrusted(error: ssl.SSLCertVerificationError, files: LoginFiles) -> str:
    what = f"the server's certificate is not accepted: {error.verify_message}"
    if "mismatch" in error.verify_message.lower():
        return f"{what} (name the server in NOETL_NATS_URL as its certificate does)"
    return f"{what} ({CA} is {files.ca})" if files.ca else f"{what} ({CA} names who has signed it)"


def _handshake(error: ssl.SSLError, files: LoginFiles) -> str:
    reason = (error.reason or "").upper()
    if any(word in reason for word in _OF_CERTIFICATE):
        if not files.cert:
            return f"the server wants a certificate of its clients: set {CERT} and {KEY}"
        return f"the server does not accept {CERT} ({files.cert}): {reason.lower().replace('_', ' ')}"
    if files.tls_first and any(word in reason for word in _NO_HANDSHAKE):
        return f"{TLS_FIRST} is set, and the server does not begin with a handshake: give it `handshake_first: true`"
    return f"the TLS handshake failed: {reason.lower().replace('_', ' ') or error}"


def _unknown(files: LoginFiles) -> str:
    if files.creds:
        return f"the broker does not accept {CREDS} ({files.creds}){_until(files.creds)}"
    if files.nkey:
        return f"the broker does not know the key of {NKEY} ({files.nkey})"
    return "the broker does not know this user or password"


def _until(path: str) -> str:
    """When its JWT expires, if it does: whoever reads it knows what time it is."""
    try:
        claims = msgspec.json.decode(jwt.body(read_creds(path)[0]), type=Claims)
    except (BadLogin, ValueError, msgspec.MsgspecError):
        return ""
    return f": it is good until {stamp(claims.exp)}" if claims.exp else ""
