"""The shell around every service: settings, logs, the bus, signals, health, exit code.

0  stopped because it was asked to, and drained
1  failed; the log says why
2  a setting cannot be used
3  asked to stop, but not drained within `drain_s`, or asked a second time
4  this machine's clock is further from the broker's than `max_skew_s`
"""

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec
import structlog

from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError, Unavailable
from shared.runtime.service import hardening, logging, login
from shared.runtime.service import metric_names as names
from shared.runtime.service.background import run_until
from shared.runtime.service.clock import WrongClock, followed
from shared.runtime.service.health import Health, endpoint, figures, hindrance, is_of
from shared.runtime.service.metrics import About, Sample
from shared.runtime.service.one_name import OneName, user_of
from shared.runtime.service.settings import BadSettings, Role, Settings, take_settings
from shared.runtime.service.supervisor import sleep_or_stop

if TYPE_CHECKING:
    from shared.bus.jetstream import JetStreamBus

OK, FAILED, BAD_SETTINGS, NOT_DRAINED, WRONG_CLOCK = 0, 1, 2, 3, 4
CONNECT_RETRY_S = 0.5
GC_THRESHOLD = (100_000, 20, 50)  # states and records hold no cycles: looking for them often is waste
CANCEL_AGAIN_S = 1.0

log = structlog.get_logger()


class Serve(Protocol):
    """A service: works until `stop` is set, then finishes what it holds and returns. Calls `ready`
    once it accepts work."""

    async def __call__(
        self, bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]
    ) -> None: ...


def run_service(name: str, serve: Serve) -> NoReturn:
    """The whole `__main__` of a service."""
    hardening.protect()
    try:
        settings = in_role(name, take_settings())
        logging.configure(settings.log_level)
    except BadSettings as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(BAD_SETTINGS)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    sys.exit(_runner()(_main(name, alone(name, serve), settings)))


def in_role(name: str, settings: Settings) -> Settings:
    """A service has its own role, and is told so by nobody else."""
    if settings.role not in ("", name):
        raise BadSettings(f"bad environment: NOETL_ROLE is {settings.role}, and this is the service {name}")
    return msgspec.structs.replace(settings, role=msgspec.convert(name, Role))


def _runner() -> Callable[..., int]:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.run
    return uvloop.run


async def _main(name: str, serve: Serve, settings: Settings) -> int:
    structlog.contextvars.bind_contextvars(service=name, instance=settings.instance)
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: (hurry if stop.is_set() else stop).set())
    log.info("service.starting")
    if settings.broker_auth == "shared":
        log.warning("service.shared_user", why="the broker keeps nobody from anything: everybody has the same user")
    health = Health()
    _present(health, name, settings)
    health.metrics.add(lambda: _of_broker(None, None))
    try:
        async with AsyncExitStack() as stack:
            if settings.health_port:
                await stack.enter_async_context(endpoint(health, settings.health_port, settings.health_host))
            bus = await stack.enter_async_context(_connected(name, settings, stop))
            if bus is None:
                return OK
            clock = await stack.enter_async_context(followed(bus, settings.max_skew_s, stop))
            return OK if clock is None else await hold(name, serve, bus, settings, clock, stop, health, hurry)
    except WrongClock as error:
        log.error("service.wrong_clock", error=str(error))
        return WRONG_CLOCK
    except (NoetlError, OSError) as error:
        log.error("service.failed", error=str(error))
    except Exception:
        log.exception("service.crashed")
    return FAILED


@asynccontextmanager
async def _connected(name: str, settings: Settings, stop: asyncio.Event) -> AsyncIterator[Bus | None]:
    """Waits for the broker to appear: services may start before it. None when stopped first."""
    while not stop.is_set():
        dialling, stopping = asyncio.ensure_future(connect(name, settings)), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({dialling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not dialling.done():
                break
            bus = dialling.result()
        except Unavailable as error:
            log.warning("bus.waiting", error=str(error))
            await sleep_or_stop(stop, CONNECT_RETRY_S)
            continue
        finally:
            stopping.cancel()
            await cancelled(dialling)
        try:
            yield bus
        finally:
            await bus.close()
        return
    yield None


async def connect(name: str, settings: Settings, within_s: float | None = None) -> "JetStreamBus":
    """`within_s`: how long nobody may answer; as long as a service waits unless given."""
    from shared.bus import jetstream  # late: the client library takes a while to import

    return await jetstream.connect(
        settings.nats_url,
        user=settings.nats_user,
        password=settings.nats_password,
        name=f"noetl-{name}/{settings.pool}.{settings.instance}",  # schedulers hear it when it is closed
        inbox_prefix=login.inbox(settings),
        files=login.files(settings),
        within_s=jetstream.CONNECT_S if within_s is None else within_s,
    )


def alone(service: str, serve: Serve) -> Serve:
    """The service, as the only process under its name: it raises NameTaken if there is another."""

    async def serve_alone(
        bus: Bus, settings: Settings, *, clock: Clock, stop: asyncio.Event, ready: Callable[[], None]
    ) -> None:
        name = OneName(bus, clock, user_of(service, settings.pool), settings.instance)
        over = asyncio.Event()  # never: who drains has its name until it has ended
        try:
            await name.take()
            await run_until(over, name.keep(), finish=serve(bus, settings, clock=clock, stop=stop, ready=ready))
        finally:
            await name.close()

    return serve_alone


async def hold(
    name: str, serve: Serve, bus: Bus, settings: Settings, clock: Clock, stop: asyncio.Event, health: Health,
    hurry: asyncio.Event | None = None,
) -> int:
    """Runs the service until it returns; once stop is set it has `drain_s` to do so, or until `hurry`."""

    def ready() -> None:
        health.mark_ready()
        log.info("service.ready")

    is_of(health)
    _present(health, name, settings)
    hindrance("broker", lambda: _away(bus))
    figures(lambda: _of_broker(bus, clock))
    from shared.bus import dead_letters  # late, as `connect` is

    letters = dead_letters.counted()
    figures(lambda: [Sample(names.LETTERS, letters.count)])
    task = asyncio.create_task(serve(bus, settings, clock=clock, stop=stop, ready=ready), name=name)
    stopping = asyncio.create_task(stop.wait())
    hurrying = asyncio.create_task((hurry or asyncio.Event()).wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        health.mark_stopping()
        if not task.done():
            log.info("service.draining", within_s=settings.drain_s)
            await asyncio.wait({task, hurrying}, timeout=settings.drain_s, return_when=asyncio.FIRST_COMPLETED)
        return _verdict(task, stop)
    finally:
        stopping.cancel()
        hurrying.cancel()
        await cancelled(task)


def _present(health: Health, name: str, settings: Settings) -> None:
    """A stack names its services by their pools too: worker-default."""
    service, version = name.partition("-")[0], own_version()
    health.metrics.about = About(service, settings.instance, settings.pool if service == "worker" else "", version)


def _of_broker(bus: Bus | None, clock: Clock | None) -> Iterator[Sample]:
    """None: it has not come yet."""
    yield Sample(names.CONNECTED, bus is not None and not _away(bus))
    if bus is not None and clock is not None:
        yield Sample(names.CONNECTIONS, bus.connections)
        yield Sample(names.SKEW, clock.skew)


def own_version() -> str:
    from importlib import metadata  # late: it takes a while

    try:
        return metadata.version("noetl-jetstream")
    except metadata.PackageNotFoundError:  # run from its source
        return ""


def _away(bus: Bus) -> str:
    """A broker in memory has no connection, and is always there."""
    connection = getattr(bus, "connection", None)
    return "" if connection is None or connection.is_connected else "no connection to the broker"


def _verdict(task: "asyncio.Task[None]", stop: asyncio.Event) -> int:
    if not task.done():
        log.error("service.not_drained")
        return NOT_DRAINED
    task.result()
    if not stop.is_set():
        log.error("service.ended", error="the service returned without being asked to stop")
        return FAILED
    log.info("service.stopped")
    return OK


async def cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancels until it is done; an error that comes now comes too late to matter.

    Once is not enough: `wait_for` of Python 3.11, which the client library uses, loses a cancellation
    that meets the end of what it waits for.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_AGAIN_S)
