"""Celery: tasks on Redis. It has no workflow that is kept: a chain is in the message of its next task, and what a loop
waits for is in the result backend."""

import os
from typing import Any

from celery import Celery, chain, group
from harness import count

RUN_S = 300

app = Celery("peer", broker=os.environ["CELERY_REDIS"], backend=os.environ["CELERY_REDIS"])
app.conf.update(
    task_acks_late=True,  # a task that a dying worker had is carried out again
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=int(os.environ.get("CELERY_PREFETCH", "16")),
    task_serializer="json",
    result_expires=RUN_S,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
    task_send_sent_event=False,
)


@app.task
def step(n: int) -> int:
    count()
    return n


@app.task
def add(done: int, n: int) -> int:
    count()
    return done + n


@app.task
def fetch(page: int, job: dict[str, Any]) -> dict[str, Any]:
    import urllib.request

    count()
    with urllib.request.urlopen(f"{job['url']}?page={page}", timeout=RUN_S) as answer:
        import json

        found: dict[str, Any] = json.load(answer)
    return {**found, "page": page}


@app.task(bind=True)
def store(self: Any, found: dict[str, Any], job: dict[str, Any]) -> Any:
    """The next page takes this one's place, so that the result of the last is the result of all."""
    count()
    _save(job["run"], found)
    page = found["page"]
    return self.replace(pages(page + 1, job)) if found["more"] else page


def pages(page: int, job: dict[str, Any]) -> Any:
    return chain(fetch.s(page, job), store.s(job))


_connections: dict[int, Any] = {}


def _save(run: str, found: dict[str, Any]) -> None:
    import json

    import psycopg

    connection = _connections.get(os.getpid())
    if connection is None:
        connection = _connections[os.getpid()] = psycopg.connect(os.environ["PEER_DSN"], autocommit=True)
    values = run, found["page"], json.dumps(found["items"])
    connection.execute("INSERT INTO bench_pages (run, page, items) VALUES (%s, %s, %s)", values)


def made(shape: str, argument: Any) -> Any:
    if shape == "read":
        return pages(1, argument)
    if shape == "loop":
        return group(step.s(n) for n in range(argument))
    return chain(step.s(0), *[add.s(n) for n in range(1, argument)]) if argument > 1 else step.s(0)
