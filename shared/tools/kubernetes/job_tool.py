"""What the kinds that run jobs of Kubernetes share: the connections of a worker, and how a call becomes a job."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from shared.events.outcome import Outcome
from shared.tools.base.contract import Call
from shared.tools.kubernetes import api as kube_api
from shared.tools.kubernetes.access import ACCOUNT, access, secret_part
from shared.tools.kubernetes.api import Api, ApiError
from shared.tools.kubernetes.job_run import MAX_POLL_S, JobRun
from shared.tools.kubernetes.manifest import Work, manifests

if TYPE_CHECKING:
    import aiohttp

CONNECTIONS = 64


class Jobs:
    """`account` is where the worker's own pod has its account; `max_poll_s` the longest time between two looks."""

    def __init__(self, account: Path = ACCOUNT, max_poll_s: float = MAX_POLL_S) -> None:
        self._account, self._max_poll_s = account, max_poll_s
        self._session: aiohttp.ClientSession | None = None

    async def run(self, call: Call, settings: Mapping[str, Any], work: Work) -> Outcome:
        """`settings` are what kube_manifest.KEYS names."""
        try:
            found = access(call.auth, self._account)
            api = Api(self._open(), found, found.at(settings.get("namespace")))
            return await JobRun(api, manifests(call, settings, work), self._max_poll_s).outcome(quiet(call))
        except ApiError as error:
            return kube_api.failure(error)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS),
                                                  cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def quiet(call: Call) -> Call:
    """The call with nothing in its credential that an answer may say."""
    return msgspec.structs.replace(call, auth=secret_part(call.auth))
