TRUNCATE noetl.cursor, noetl.execution, noetl.record_group, noetl.repeated, noetl.step_run, noetl.loop, noetl.iteration,
    noetl.task_run, noetl.ctx, noetl.corrupt, noetl.purged
