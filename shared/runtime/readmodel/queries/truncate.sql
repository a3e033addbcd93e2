TRUNCATE noetl.cursor, noetl.execution, noetl.record, noetl.repeated, noetl.step_run, noetl.loop, noetl.iteration,
    noetl.task_run, noetl.ctx, noetl.corrupt, noetl.purged
