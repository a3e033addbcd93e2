"""The connection as one that logs in by files: each time it is opened, and opened again, they are read.

1. *No TLS, no login.* nats-py goes on in the clear when a server does not ask for TLS. Whoever stands in between could
   say so in the server's name and would be sent the password; so one who wants TLS ends the connection instead.
2. *A server that only offers TLS* (`allow_non_tls`) is taken by its word.
3. *A signature needs something to sign.* A server that sends no nonce knows no keys, and would let in whoever it lets
   in without any: as somebody else.
"""

import ssl
from base64 import b64encode
from typing import Any, NoReturn

from shared.bus.login.files import BadLogin, LoginFiles, read_creds, read_nkey, ssl_context
from shared.bus.nats_py import TcpTransport
from shared.bus.wire import Connection

NO_TLS = "the server offers no TLS, and NOETL_NATS_URL (tls://) or a NOETL_NATS_*_FILE wants it: give the server " \
         "`tls {…}`, or leave them out"
NO_NONCE = "the server asks for no signature, so it knows no keys: {} is of no use there"


class LoginConnection(Connection):
    def __init__(self, files: LoginFiles, *, wants_tls: bool = False) -> None:
        super().__init__()
        self._files, self._wants_tls = files, wants_tls or files.wants_tls

    @property
    def was_reached(self) -> bool:
        """Somebody has accepted the connection at least once."""
        return self._current_server is not None

    @property
    def is_encrypted(self) -> bool:
        writer = self._transport._io_writer if isinstance(self._transport, TcpTransport) else None
        return writer is not None and writer.get_extra_info("ssl_object") is not None

    @property
    def ssl_context(self) -> ssl.SSLContext:
        return ssl_context(self._files)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Before anything is sent; nats-py looks at `tls_required` next."""
        if initial_connection and self._wants_tls and not self._files.tls_first:
            if not (info.get("tls_required") or info.get("tls_available")):
                self._end(NO_TLS)
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        if self._files.signs:
            nonce = self._server_info.get("nonce")
            if not nonce:
                self._end(NO_NONCE.format("NOETL_NATS_CREDS_FILE" if self._files.creds else "NOETL_NATS_NKEY_FILE"))
            try:
                self._prove()
            except BadLogin as error:
                self._end(str(error))
        return super()._connect_command()

    def _prove(self) -> None:
        """JWT and key are of one reading: a file that is replaced in between would not fit itself."""
        jwt, key = read_creds(self._files.creds) if self._files.creds else ("", read_nkey(self._files.nkey))
        self._auth_configured = True
        self._signature_cb = lambda nonce: b64encode(key.sign(nonce.encode()))
        self._user_jwt_cb = jwt.encode if jwt else None
        self._public_nkey = None if jwt else key.public

    def _end(self, why: str) -> NoReturn:
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]  # of nats-py
        raise BadLogin(why)
