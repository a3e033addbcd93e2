"""A certificate nobody trusts, for localhost, and its key: made for tests and used nowhere else."""

import ssl
from pathlib import Path

_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQghp2MMWnuFVmMKc43
OLD7IDuYcOUA4EjQXcN2zMNx4tGhRANCAASKMxocoODFyc5udzd9kajZpZbJgb/3
sTWAEwBj7J6laLY5ua1UBr1uMiTJqLeOFRptM4PFzNdY88nDaQgjWJa4
-----END PRIVATE KEY-----
"""

_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUfXalx/aZgf9PZNdBemSRWE0yOZIwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjAzNDkwNloYDzIxMjYxMDIz
MDM0OTA2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASKMxocoODFyc5udzd9kajZpZbJgb/3sTWAEwBj7J6laLY5ua1UBr1u
MiTJqLeOFRptM4PFzNdY88nDaQgjWJa4o28wbTAdBgNVHQ4EFgQUzEeRYPPjz3kX
0Br7+woME+QUZc4wHwYDVR0jBBgwFoAUzEeRYPPjz3kX0Br7+woME+QUZc4wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAKuGS/E6jgaqufJFFkyNXEvnSKByLZHXY+l2HKMZN3EfAiBq
4V2nv/4vFFBn0qFpagyw51Pb1HwlLM5/FyNNjsSHjw==
-----END CERTIFICATE-----
"""


def untrusted_server_context(folder: Path) -> ssl.SSLContext:
    file = folder / "untrusted.pem"
    file.write_text(_KEY + _CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
