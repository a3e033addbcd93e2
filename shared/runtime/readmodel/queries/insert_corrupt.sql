INSERT INTO noetl.corrupt (partition, seq, subject, data, error) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (partition, seq) DO NOTHING
