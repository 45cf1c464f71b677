"""Credentials of one worker: a role of PostgreSQL and a user of Valkey or Redis, made and revoked.

Policies of row-level security name the rows of a role: what waits in its queues, and what its
machine holds. A row that has ended keeps its lease, which names the machine, so that the end of a
run is written in the transaction that stores its verdict. Minutes later the role sees it no more.

A role reads, and does not change, the broken runs that the runs it sees continue, however many. It
cannot write which run another continues, else it could open any private run by that, nor whether a
run is the arena's own.

Limitation: every worker writes the standings, and names in the catalogue are readable. So a stolen
role can forge verdicts of its device and figures on boards, until it is revoked.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings
from django.db import connection, transaction
from psycopg import sql

from arena import queue, sockets
from arena.catalog.workers import WORKER_TIMEOUT
from arena.errors import UserError
from arena.runs.models import Run

MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,40}")
QUEUE = re.compile(r"build|agents|hw\.[a-z0-9][a-z0-9.-]*")
HELD_MINUTES = 5
"""Age of a lease after which a machine sees its row no more. Leases last 30 s without renewal."""

READABLE = (
    "django_migrations", "catalog_operator", "catalog_task", "catalog_taskfolder",
    "catalog_taskversion", "catalog_harness", "catalog_agent", "catalog_hardware",
    "catalog_worker", "catalog_catalogsync", "leaderboard_composition", "curation_check",
)  # fmt: skip
RUN_COLUMNS = ", ".join(
    f'"{field.column}"'
    for field in Run._meta.local_concrete_fields
    if field.name not in ("continues", "by_arena")
)
GRANTS: Mapping[str, str] = {
    "catalog_agent": "UPDATE (answered_by)",
    "catalog_hardware": "INSERT, UPDATE",
    "catalog_device": "SELECT, INSERT, UPDATE",
    "catalog_worker": "INSERT, UPDATE, DELETE",
    "runs_run": f"SELECT, UPDATE ({RUN_COLUMNS})",
    "runs_submission": "SELECT",
    "runs_evaluation": "SELECT, UPDATE",
    "runs_gateresult": "SELECT, INSERT, UPDATE, DELETE",
    "runs_measurement": "SELECT, INSERT, UPDATE, DELETE",
    "runs_event": "SELECT, INSERT",
    "runs_blob": "INSERT",
    "runs_standing": "SELECT, INSERT, UPDATE, DELETE",
    "runs_speedrecord": "SELECT, INSERT, UPDATE, DELETE",
    "runs_standingsstate": "SELECT, UPDATE",
    "runs_trafficpart": "SELECT, DELETE",
    "runs_artefact": "SELECT, INSERT, UPDATE",
}
OF_HARDWARE: Mapping[str, str] = {
    "leaderboard_composition": "UPDATE",
    "curation_check": "UPDATE",
    "curation_checkstep": "SELECT, INSERT, DELETE",
    "curation_draft": "SELECT",
}
OF_AGENTS: Mapping[str, str] = {
    "runs_submission": "INSERT",
    "runs_evaluation": "INSERT",
    "runs_experiment": "SELECT",
    "runs_trafficpart": "SELECT, INSERT",
}

SIGNATURES = (
    "arena_runs_of(text)", "arena_continued_of(text)",
    "arena_waiting(text[])", "arena_composed(text[])",
)  # fmt: skip
ACTIVE = "status IN ('queued', 'running', 'judging')"
FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION arena_runs_of(machine text) RETURNS SETOF varchar
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.run_id FROM runs_evaluation e JOIN runs_submission s ON s.id = e.submission_id
   WHERE starts_with(e.lease, machine || ':')
     AND e.heartbeat_at > now() - interval '{HELD_MINUTES} minutes'
   UNION
  SELECT id FROM runs_run WHERE starts_with(lease, machine || ':')
     AND heartbeat_at > now() - interval '{HELD_MINUTES} minutes'
$$;
CREATE OR REPLACE FUNCTION arena_continued_of(machine text) RETURNS SETOF varchar
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  WITH RECURSIVE chain(id) AS (
    SELECT continues_id FROM runs_run WHERE continues_id IS NOT NULL
       AND (visibility = 'public' OR {ACTIVE} OR id IN (SELECT arena_runs_of(machine)))
     UNION
    SELECT r.continues_id FROM runs_run r JOIN chain ON r.id = chain.id
     WHERE r.continues_id IS NOT NULL
  )
  SELECT id FROM chain
$$;
CREATE OR REPLACE FUNCTION arena_waiting(queues text[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT e.submission_id FROM runs_evaluation e JOIN catalog_hardware h ON h.id = e.hardware_id
   WHERE (e.status = 'queued' AND 'build' = ANY(queues))
      OR (e.status = 'built' AND h.queue = ANY(queues))
$$;
CREATE OR REPLACE FUNCTION arena_composed(queues text[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT (part.value ->> 'id')::bigint
    FROM leaderboard_composition c JOIN catalog_hardware h ON h.id = c.hardware_id,
         jsonb_each(c.submissions) part
   WHERE c.status IN ('queued', 'running') AND h.queue = ANY(queues)
$$;
REVOKE ALL ON FUNCTION {", ".join(SIGNATURES)} FROM PUBLIC;
"""  # noqa: S608  (constants)
LOCK = 0x6172656E61
"""Number of the advisory lock under which roles and policies change, one command at a time."""
RUNS = "(SELECT arena_runs_of({machine}))"
HELD = f"run_id IN {RUNS}"
CONTINUED = f"""run_id IN (
  WITH RECURSIVE chain(id) AS (
    SELECT continues_id FROM runs_run WHERE id IN {RUNS}
     UNION
    SELECT r.continues_id FROM runs_run r JOIN chain ON r.id = chain.id
  )
  SELECT id FROM chain
)"""  # noqa: S608  (constants)
EVALUATIONS = "evaluation_id IN (SELECT id FROM runs_evaluation)"
DEVICE = "hardware_id IN (SELECT id FROM catalog_hardware WHERE queue = ANY({queues}))"
OWN_DEVICE = "starts_with(worker, {machine} || '/')"
OF_HELD = f"submission_id IN (SELECT id FROM runs_submission WHERE {HELD})"  # noqa: S608  (constants)
OWN = (
    "starts_with(lease, {machine} || ':')"
    f" AND heartbeat_at > now() - interval '{HELD_MINUTES} minutes'"
)
OF_OWN = f"evaluation_id IN (SELECT id FROM runs_evaluation WHERE {OWN})"  # noqa: S608  (constants)


@dataclass(frozen=True)
class Policy:
    """Rows of a table that a role may read or write; `then` holds for a row that it has written."""

    table: str
    rows: str
    then: str = ""
    command: str = "ALL"


POLICIES = (
    Policy("catalog_worker", "true", command="SELECT"),
    Policy(
        "catalog_worker",
        "starts_with(name, {machine} || '/') AND queues <@ to_jsonb({queues})",
    ),
    Policy("catalog_hardware", "true", command="SELECT"),
    Policy("catalog_hardware", "queue = ANY({queues})"),
    Policy("catalog_device", DEVICE, command="SELECT"),
    Policy(
        "catalog_device",
        f"{DEVICE} AND ({OWN_DEVICE} OR token = '' OR held_at IS NULL"
        f" OR held_at < now() - interval '{int(WORKER_TIMEOUT.total_seconds())} seconds')",
        f"{DEVICE} AND (worker = '' OR {OWN_DEVICE})",
    ),
    Policy(
        "runs_run",
        f"visibility = 'public' OR {ACTIVE} OR ({OWN})"
        " OR id IN (SELECT arena_runs_of({machine}))"
        " OR id IN (SELECT arena_continued_of({machine}))",
        command="SELECT",
    ),
    Policy(
        "runs_run",
        f"({OWN}) OR id IN (SELECT arena_runs_of({{machine}}))"
        " OR (status = 'queued' AND 'agents' = ANY({queues}))",
        f"({OWN}) OR id IN (SELECT arena_runs_of({{machine}}))",
        "UPDATE",
    ),
    Policy(
        "runs_submission",
        f"{HELD} OR id IN (SELECT arena_waiting({{queues}}))"
        " OR id IN (SELECT arena_composed({queues}))",
    ),
    Policy(
        "runs_evaluation",
        f"({OWN}) OR (lease = '' AND status IN ('queued', 'built')"
        f" AND ('build' = ANY({{queues}}) OR {DEVICE}))"
        f" OR {OF_HELD}",
    ),
    Policy("runs_gateresult", EVALUATIONS),
    Policy("runs_measurement", EVALUATIONS),
    Policy("runs_artefact", OF_OWN),
    Policy("runs_event", HELD),
    Policy("runs_trafficpart", f"{HELD} OR {CONTINUED}", HELD),
    Policy("runs_blob", "false", "true"),
    Policy("leaderboard_composition", DEVICE),
    Policy("curation_check", DEVICE),
    Policy("curation_checkstep", "check_of_id IN (SELECT id FROM curation_check)"),
    Policy(
        "curation_draft",
        "id IN (SELECT draft_id FROM curation_check WHERE status IN ('queued', 'running'))",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """Environment of one worker."""

    database_url: str
    redis_url: str


def role_of(machine: str) -> str:
    """Return the name of a machine's role. Raises UserError for a name that no machine has."""
    if not MACHINE.fullmatch(machine):
        raise UserError(f"{machine!r} is no host name.", "Write what `hostname` prints there.")
    return f"arena_worker_{machine}"


def grant(machine: str, queues: Sequence[str]) -> Access:
    """Make the credentials of a machine anew; those that it had end.

    Raises: UserError for an unknown queue, or a database that has no roles.
    """
    role = role_of(machine)
    if unknown := [name for name in queues if not QUEUE.fullmatch(name)]:
        raise UserError(f"There is no queue {unknown[0]!r}.", "build, agents, or hw.SLUG.")
    _check_database()
    password = secrets.token_urlsafe(32)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        _drop(cursor, role)
        cursor.execute(FUNCTIONS)
        _create(cursor, role, password)
        of_queues = OF_HARDWARE if any(name.startswith("hw.") for name in queues) else {}
        of_agents = OF_AGENTS if queue.AGENTS in queues else {}
        for grants in (dict.fromkeys(READABLE, "SELECT"), GRANTS, of_queues, of_agents):
            for table, rights in grants.items():
                _execute(cursor, f"GRANT {rights} ON {{table}} TO {{role}}", table=table, role=role)
        for number, policy in enumerate(POLICIES):
            _permit(cursor, role, machine, queues, policy, number)
    _set_user(machine, queues, password)
    return Access(_database_url(role, password), _redis_url(_user_of(machine), password))


def revoke(machine: str) -> bool:
    """End the credentials of a machine and its connections; return whether it had any."""
    role = role_of(machine)
    _check_database()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        found = _drop(cursor, role)
    _client().execute_command("ACL", "DELUSER", _user_of(machine))
    return found


def _check_database() -> None:
    if connection.vendor != "postgresql":
        raise UserError("SQLite has no roles.", "Several machines need PostgreSQL: DATABASE_URL.")


def _execute(cursor: Any, text: str, **names: str) -> None:
    """Execute a statement with identifiers in its braces."""
    found = sql.SQL(text).format(**{name: sql.Identifier(each) for name, each in names.items()})
    cursor.execute(found)


def _drop(cursor: Any, role: str) -> bool:
    cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
    if cursor.fetchone() is None:
        return False
    cursor.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [role]
    )
    _execute(cursor, "DROP OWNED BY {role}", role=role)
    _execute(cursor, "DROP ROLE {role}", role=role)
    return True


def _create(cursor: Any, role: str, password: str) -> None:
    database = connection.settings_dict["NAME"]
    made = sql.SQL("CREATE ROLE {} LOGIN NOINHERIT PASSWORD {}")
    cursor.execute(made.format(sql.Identifier(role), sql.Literal(password)))
    _execute(cursor, "GRANT {role} TO CURRENT_USER", role=role)  # so that this one may drop it
    _execute(cursor, "GRANT CONNECT ON DATABASE {db} TO {role}", db=database, role=role)
    for function in SIGNATURES:
        _execute(cursor, f"GRANT EXECUTE ON FUNCTION {function} TO {{role}}", role=role)


def _permit(
    cursor: Any, role: str, machine: str, queues: Sequence[str], policy: Policy, number: int
) -> None:
    values = {
        "machine": sql.Literal(machine),
        "queues": sql.SQL("{}::text[]").format(sql.Literal(list(queues))),
    }
    _execute(cursor, "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", table=policy.table)
    text = f"CREATE POLICY {{name}} ON {{table}} FOR {policy.command} TO {{role}}"
    text += f" USING ({policy.rows})"
    if policy.command != "SELECT":
        text += f" WITH CHECK ({policy.then or policy.rows})"
    names = {"name": f"{role} {number}", "table": policy.table, "role": role}
    identifiers = {name: sql.Identifier(each) for name, each in names.items()}
    cursor.execute(sql.SQL(text).format(**identifiers, **values))


def _database_url(role: str, password: str) -> str:
    database = connection.settings_dict
    host = quote(database["HOST"], safe="")
    place = f"{host}:{database['PORT']}" if database["PORT"] else host
    return f"postgres://{quote(role)}:{password}@{place}/{database['NAME']}"


def _user_of(machine: str) -> str:
    return f"worker-{machine}"


def _client() -> Any:
    return redis.Redis.from_url(settings.REDIS_URL)


def _set_user(machine: str, queues: Sequence[str], password: str) -> None:
    """Make a user that takes from its queues, and only adds messages to others."""
    keys = ["dramatiq", "dramatiq:__heartbeats__"]
    for name in queues:
        keys += [f"dramatiq:{name}", f"dramatiq:{name}.*", f"dramatiq:__acks__.*.{name}*"]
    taking = (
        "evalsha script|load ping hello client|setname client|setinfo select info zadd"
        " zrangebyscore smembers hexists rpush del keys zrem hdel hset lpop sadd hmget srem hget"
        " llen publish"
    )
    adding = " ".join(f"+{name}" for name in ("evalsha", "hset", "rpush"))
    rules = [
        "reset", "on", f">{password}", *(f"~{key}" for key in keys), f"&{sockets.CHANNEL}", "-@all",
        *(f"+{name}" for name in taking.split()), f"({adding} ~dramatiq:*)",
    ]  # fmt: skip
    client = _client()
    client.execute_command("ACL", "SETUSER", _user_of(machine), *rules)
    try:
        client.execute_command("ACL", "SAVE")
    except redis.ResponseError:  # it has no file of users
        client.config_rewrite()


def _redis_url(user: str, password: str) -> str:
    parts = urlsplit(settings.REDIS_URL)
    place = f"{user}:{password}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=place))
