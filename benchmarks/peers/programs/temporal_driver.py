"""Temporal: starts workflows and waits for their results."""

import os
from typing import Any

import uvloop
from harness import drive
from temporal_work import QUEUE, WORKFLOWS
from temporalio.client import Client


async def main() -> None:
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])

    async def execute(name: str, shape: str, argument: Any) -> Any:
        return await client.execute_workflow(WORKFLOWS[shape].run, argument, id=name, task_queue=QUEUE)

    await drive(execute)


uvloop.run(main())
