TRUNCATE noetl.cursor, noetl.execution, noetl.event, noetl.step_run, noetl.loop, noetl.iteration,
    noetl.task_run, noetl.ctx, noetl.corrupt, noetl.purged
