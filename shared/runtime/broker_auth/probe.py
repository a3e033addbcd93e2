"""Whether a user gets through to the engine's account: a worker of a new pool is let in before its account's imports
work."""

from shared.bus.wire import status_of
from shared.errors import NoetlError
from shared.events import subjects
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Settings

NO_RESPONDERS = 503


async def gets_through(worker: Settings) -> bool:
    try:
        bus = await connect("accounts", worker)
    except NoetlError:
        return False
    try:
        return status_of((await bus.requests.one(subjects.TIME))[0]) != NO_RESPONDERS
    except NoetlError:
        return False
    finally:
        await bus.close()
