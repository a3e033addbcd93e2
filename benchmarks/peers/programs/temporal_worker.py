"""Temporal: one worker process."""

import asyncio
import os
import signal

import uvloop
from temporal_work import ACTIVITIES, QUEUE, WORKFLOWS
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

SLOTS = 1000


async def main() -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    pollers = int(os.environ["TEMPORAL_POLLERS"])
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=list(WORKFLOWS.values()),
        activities=ACTIVITIES,
        workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox costs, and these workflows keep to its rules
        max_concurrent_workflow_tasks=SLOTS,
        max_concurrent_activities=SLOTS,
        max_concurrent_workflow_task_polls=pollers,
        max_concurrent_activity_task_polls=pollers,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with worker:
        print("works", flush=True)
        await stop.wait()


uvloop.run(main())
