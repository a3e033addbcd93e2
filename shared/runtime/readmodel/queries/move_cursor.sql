UPDATE noetl.cursor SET seq = $2 WHERE partition = $1 AND seq < $2
