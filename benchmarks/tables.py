"""How much room the read model takes in PostgreSQL."""

import asyncpg

SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'noetl' AND c.relkind = 'r'
"""


async def size(dsn: str) -> int:
    """Bytes, with indexes and what is stored out of line."""
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(SIZE))
    finally:
        await connection.close()
