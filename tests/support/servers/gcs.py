"""A server that keeps objects as Google Cloud Storage does, on a free port, in memory."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from gcp_storage_emulator.server import create_server

from shared.runtime.embedded.nats_server import HOST, free_port

BUCKET = "my-bucket"


@contextmanager
def running_gcs() -> Iterator[str]:
    """Its address."""
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    port = free_port()
    server = create_server(HOST, port, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.stop()
