    -- The epoch fences: a row a later lease has touched is not changed by an earlier one.
    AND (old.epoch_ns, old.epoch_try) <= (new.epoch_ns, new.epoch_try)
