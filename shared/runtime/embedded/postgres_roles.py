"""Who may do what in the embedded PostgreSQL. Everybody needs a password, and the superuser has none and cannot log in.
What only the superuser can do is done by the server's single-user mode, while it does not run."""

import secrets
from collections.abc import Mapping

PROJECTOR = "noetl_projector"  # owns the schema of the read model, and writes it
READER = "noetl_reader"        # reads it: noetlctl
ROLES = (PROJECTOR, READER)
HBA = """# Written by noetlctl: a password for everybody, however they come.
local all all scram-sha-256
host  all all all scram-sha-256
"""
# One statement a line. An earlier version wrote the tables as the superuser, whom anybody could be.
_STATEMENTS = f"""
ALTER ROLE postgres PASSWORD NULL;
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT, CREATE ON DATABASE postgres TO {PROJECTOR};
GRANT CONNECT ON DATABASE postgres TO {READER};
GRANT pg_read_all_stats TO {READER};
CREATE SCHEMA IF NOT EXISTS noetl;
ALTER SCHEMA noetl OWNER TO {PROJECTOR};
DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'noetl'::regnamespace AND \
relkind IN ('r', 'p', 'v', 'm') LOOP EXECUTE format('ALTER TABLE %s OWNER TO {PROJECTOR}', t); END LOOP; END $$;
GRANT USAGE ON SCHEMA noetl TO {READER};
GRANT SELECT ON ALL TABLES IN SCHEMA noetl TO {READER};
ALTER DEFAULT PRIVILEGES FOR ROLE {PROJECTOR} IN SCHEMA noetl GRANT SELECT ON TABLES TO {READER};
"""


def new_passwords() -> dict[str, str]:
    return {role: secrets.token_urlsafe(24) for role in ROLES}


def statements(passwords: Mapping[str, str]) -> str:
    """May be run again; the last passwords count. They are random: rounds of hashing, which slow down who guesses words
    of people, would slow down every connection instead."""
    return "SET scram_iterations = 1;\n" + "\n".join(_role(role, passwords[role]) for role in ROLES) + _STATEMENTS


def _role(role: str, password: str) -> str:
    assert "'" not in password, "a password we made"
    return (
        f"DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;\n"
        f"ALTER ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{password}';"
    )
