"""Reach of a worker's own credentials: its work, and nothing of accounts or of other runs."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
import redis
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker

from arena.accounts.models import ApiToken
from arena.catalog import devices
from arena.catalog import services as catalog
from arena.catalog.checkouts import schema_problem
from arena.catalog.models import Device, Hardware, Worker
from arena.leases import Leased, is_limited
from arena.runs import artefacts, credentials, services
from arena.runs.credentials import grant, revoke
from arena.runs.models import Evaluation, GateResult, Run, TrafficPart
from arena.runs.traffic import add_part, recording
from tests.arena.factories import LEASE, ask_for_verdict, finished, report

pytestmark = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has no roles: make test-postgres"
)
GPU_BOX, BUILDER, AGENTS = "gpu-1", "build-1", "agents-1"


@pytest.fixture
def boxes(transactional_db, valkey, hardware):
    """Return the access of three machines by name."""
    queues = {GPU_BOX: [hardware.queue], BUILDER: ["build"], AGENTS: ["agents"]}
    yield {name: grant(name, each) for name, each in queues.items()}
    for name in queues:
        revoke(name)


@contextmanager
def role_of(machine):
    """Act as a machine in the connection of this thread."""
    with connection.cursor() as cursor:
        cursor.execute(f'SET SESSION AUTHORIZATION "{credentials.role_of(machine)}"')
        try:
            yield
        finally:
            cursor.execute("RESET SESSION AUTHORIZATION")


@contextmanager
def connected(access):
    """Connect as a worker does, with nothing but its DATABASE_URL."""
    url = urlsplit(access.database_url)
    with psycopg.connect(
        host=unquote(url.hostname or unquote(url.netloc.rpartition("@")[2])),
        user=url.username,
        password=url.password,
        dbname=url.path[1:],
        autocommit=True,
    ) as found:
        yield found


def refused(access, statement: str) -> bool:
    with connected(access) as database:
        try:
            database.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            return True
    return False


def rows(access, statement: str) -> list:
    with connected(access) as database:
        return database.execute(statement).fetchall()


def judged_by_machines(start, **changes) -> Run:
    """Start a run, and take it to its verdict, each step by the role of its machine."""
    return judge_by_machines(start(**changes))


def judge_by_machines(run: Run) -> Run:
    with role_of(AGENTS):
        assert services.claim_run(run.pk, f"{AGENTS}:1:a")
        evaluation = ask_for_verdict(run)
    with role_of(BUILDER):
        lease = f"{BUILDER}:1:b"
        assert services.claim_evaluation(evaluation.pk, "queued", "building", lease)
        assert services.record_gate(evaluation.pk, lease, report().gates[0])
        assert artefacts.store(evaluation, lease, "a" * 40, b"a library")
        assert services.finish_build(evaluation.pk, lease)
        assert artefacts.find(evaluation.pk) is None, "another machine may have it by now"
    with role_of(GPU_BOX):
        lease = f"{GPU_BOX}:1:c"
        assert services.claim_evaluation(evaluation.pk, "built", "measuring", lease)
        assert artefacts.find(evaluation.pk) == ("a" * 40, b"a library")
        for gate in report().gates:
            assert services.record_gate(evaluation.pk, lease, gate)
        assert services.heartbeat_evaluation(evaluation.pk, lease)
        assert services.finish_evaluation(evaluation.pk, lease, report())
    run.refresh_from_db()
    return run


def test_machines_with_their_own_roles_take_a_run_to_its_verdict(boxes, start):
    run = judged_by_machines(start)
    assert (run.status, run.speedup, run.standing.run_id) == ("passed", 2.0, run.pk)
    assert Evaluation.objects.get().private["gates"]
    assert run.record.beaten == 1.0


@pytest.mark.parametrize("machine", [GPU_BOX, BUILDER, AGENTS])
def test_machine_counts_what_it_holds_in_each_table_of_work(boxes, machine):
    models = [each for each in apps.get_models() if issubclass(each, Leased)]
    with role_of(machine):
        held = {each.__name__: each.objects.held_on(machine).count() for each in models}
    assert held == {"Run": 0, "Evaluation": 0, "Check": 0, "Composition": 0}


def broken_after_calls(run: Run, lines: bytes) -> Run:
    """Break a run that has recorded these lines of traffic, minutes ago."""
    assert services.claim_run(run.pk, f"{AGENTS}:1:a")
    add_part(run.pk, 0, lines)
    assert services.finish_run(run.pk, f"{AGENTS}:1:a", "broken", "Its machine is gone.", "arena")
    Run.objects.filter(pk=run.pk).update(heartbeat_at=Now() - timedelta(minutes=6))
    return run


def test_machines_judge_a_private_run_that_continues_a_continued_one_to_its_end(
    boxes, start, alice
):
    first = broken_after_calls(start(owner=alice, visibility="owner"), b"first\n")
    second = broken_after_calls(services.continue_run(first, None), b"second\n")
    last = services.continue_run(second, None)
    chain = {first.pk, second.pk, last.pk}
    other = broken_after_calls(start(owner=alice, visibility="owner", repeat=1), b"other\n")
    run = judge_by_machines(last)
    assert (run.status, run.visibility) == ("passed", "owner")
    assert list(TrafficPart.objects.values_list("run", flat=True)) == [other.pk]
    for machine in (AGENTS, GPU_BOX):
        assert {pk for (pk,) in rows(boxes[machine], PRIVATE["runs"])} == chain
    assert not rows(boxes[BUILDER], PRIVATE["runs"])


def test_machine_reads_broken_private_runs_while_it_sees_one_that_continues_them(
    boxes, start, alice
):
    first = broken_after_calls(start(owner=alice, visibility="owner"), b"first\n")
    second = broken_after_calls(services.continue_run(first, None), b"second\n")
    assert not rows(boxes[AGENTS], PRIVATE["runs"])
    other = broken_after_calls(start(owner=alice, visibility="owner", repeat=1), b"other\n")
    last = services.continue_run(second, None)
    assert len(rows(boxes[AGENTS], PRIVATE["runs"])) == 3
    assert not rows(boxes[AGENTS], "SELECT lines FROM runs_trafficpart"), "it holds none of them"
    with connected(boxes[AGENTS]) as database:
        statement = "UPDATE runs_run SET speedup = 99 WHERE id = ANY(%s)"
        assert not database.execute(statement, [[first.pk, second.pk]]).rowcount
    with role_of(AGENTS):
        assert services.claim_run(last.pk, f"{AGENTS}:1:a")
        assert recording([first.pk]) == b"first\n"
        assert recording([second.pk]) == b"second\n"
        assert recording([other.pk]) == b""


def test_machine_puts_back_what_broke(boxes, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    with role_of(BUILDER):
        assert services.claim_evaluation(evaluation.pk, "queued", "building", f"{BUILDER}:1:b")
        assert services.break_evaluation(evaluation.pk, f"{BUILDER}:1:b", "No space left")
    evaluation.refresh_from_db()
    assert (evaluation.status, evaluation.broken_on) == ("queued", BUILDER)


def test_machine_with_a_role_registers_its_device_and_updates_last_seen_at(boxes, hardware):
    device = {"slug": "test-cpu", "name": "Test CPU", "kind": "cpu", "peaks": {"copy_gbps": 12.0}}
    with role_of(GPU_BOX):
        assert is_limited()
        assert schema_problem() == ""
        catalog.register_hardware(device)
        for _ in range(2):
            catalog.heartbeat_worker(
                f"{GPU_BOX}/{hardware.queue}", queues=[hardware.queue], pid=1, hardware=hardware
            )
    assert Hardware.objects.get().peaks == {"copy_gbps": 12.0}
    assert Worker.objects.serving(hardware.queue)
    assert not is_limited()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT password FROM accounts_user",
        "SELECT id, is_staff FROM accounts_user",
        "UPDATE runs_run SET by_arena = true",
        "UPDATE accounts_user SET is_staff = true",
        "SELECT * FROM accounts_apitoken",
        "INSERT INTO accounts_apitoken (name) VALUES ('mine')",
        "SELECT * FROM django_session",
        "DELETE FROM django_session",
        "SELECT * FROM audit_auditentry",
        "SELECT * FROM runs_blob",
        "DELETE FROM runs_run",
        "UPDATE runs_run SET continues_id = NULL",
        "DELETE FROM runs_event",
        "UPDATE catalog_taskversion SET admitted = true",
        "UPDATE catalog_agent SET settings = '{}'",
        "CREATE TABLE mine (a int)",
        "SET ROLE postgres",
        "ALTER TABLE runs_run DISABLE ROW LEVEL SECURITY",
    ],
)
@pytest.mark.parametrize("machine", [GPU_BOX, BUILDER, AGENTS])
def test_machine_is_refused_accounts_tokens_and_what_is_not_its_work(
    boxes, alice, machine, statement
):
    ApiToken.issue(alice, "laptop", scopes=["read"])
    assert refused(boxes[machine], statement)


PRIVATE = {
    "evaluations": "SELECT private FROM runs_evaluation",
    "gates": "SELECT private FROM runs_gateresult",
    "measurements": 'SELECT "case" FROM runs_measurement',
    "kernels": "SELECT files FROM runs_submission",
    "traces": "SELECT body FROM runs_event",
    "runs": "SELECT id FROM runs_run",
}


@pytest.mark.parametrize("machine", [GPU_BOX, BUILDER, AGENTS])
def test_machine_sees_nothing_of_private_runs_that_it_does_not_judge(boxes, start, alice, machine):
    run = finished(start(owner=alice, visibility="owner"))
    assert GateResult.objects.exclude(private={}).exists()
    seen = [name for name, text in PRIVATE.items() if rows(boxes[machine], text)]
    assert seen == []
    with connected(boxes[machine]) as database:
        changed = database.execute("UPDATE runs_run SET speedup = 99").rowcount
        changed += database.execute("UPDATE runs_evaluation SET verdict = 'passed'").rowcount
    assert changed == 0
    assert Run.objects.get(pk=run.pk).speedup == 2.0


def test_machine_sees_a_verdict_no_more_once_it_is_minutes_old(boxes, start, alice):
    judged_by_machines(start, owner=alice, visibility="owner")
    assert rows(boxes[GPU_BOX], PRIVATE["evaluations"])
    assert not rows(boxes[BUILDER], PRIVATE["evaluations"])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_evaluation SET heartbeat_at = now() - interval '6 minutes'")
        cursor.execute("UPDATE runs_run SET heartbeat_at = now() - interval '6 minutes'")
    assert not rows(boxes[GPU_BOX], PRIVATE["evaluations"])
    assert not rows(boxes[GPU_BOX], PRIVATE["traces"])


def test_machine_cannot_claim_work_of_other_queues_or_in_another_name(boxes, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    Hardware.objects.update(queue="hw.other")
    Evaluation.objects.update(status="built")
    with role_of(GPU_BOX):
        claim = (evaluation.pk, "built", "measuring")
        assert services.claim_evaluation(*claim, f"{GPU_BOX}:1:c") is None
    Hardware.objects.update(queue="hw.test-cpu")
    with connected(boxes[GPU_BOX]) as database, pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.execute("UPDATE runs_evaluation SET lease = 'other:1:c', status = 'measuring'")
    with connected(boxes[GPU_BOX]) as database, pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.execute(
            "INSERT INTO catalog_worker (name, queues, pid, capabilities, problem)"
            """ VALUES ('gpu-1/agents', '["agents"]', 1, '{}', '')"""
        )


def test_machine_writes_no_device_that_another_machine_holds(boxes, hardware):
    devices.hold("GPU-2", hardware, "gpu-2/hw", 1, "of gpu-2")
    with role_of(GPU_BOX):
        assert devices.hold("GPU-1", hardware, f"{GPU_BOX}/hw", 1, "own").token == "own"
        assert Device.objects.count() == 2, "it is compared with those of other machines"
        assert Device.objects.update(latency_us=1.0, excluded="slow") == 1
        assert devices.hold("GPU-2", hardware, f"{GPU_BOX}/hw", 1, "own").worker == "gpu-2/hw"
    assert refused(boxes[GPU_BOX], "UPDATE catalog_device SET worker = 'gpu-2/hw'")
    Device.objects.filter(key="GPU-2").update(held_at=Now() - timedelta(minutes=1))
    with role_of(GPU_BOX):
        assert devices.hold("GPU-2", hardware, f"{GPU_BOX}/hw", 1, "own").token == "own"


def test_revoked_machine_connects_no_more(boxes):
    client = redis.Redis.from_url(boxes[GPU_BOX].redis_url)
    assert client.ping()
    with connected(boxes[GPU_BOX]) as database:
        assert revoke(GPU_BOX)
        with pytest.raises(psycopg.OperationalError):
            database.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError), connected(boxes[GPU_BOX]):
        pass
    with pytest.raises(redis.RedisError):
        redis.Redis.from_url(boxes[GPU_BOX].redis_url).ping()
    assert not revoke(GPU_BOX)


def message(name: str) -> Message:
    return Message(queue_name=name, actor_name="measure", args=(1,), kwargs={}, options={})


def test_machine_takes_messages_of_its_queues_and_only_adds_to_others(boxes, valkey, hardware):
    owner = redis.Redis.from_url(valkey)
    owner.flushdb()
    owner.set("session", "secret")
    broker = RedisBroker(url=boxes[GPU_BOX].redis_url)
    for name in (hardware.queue, "build"):
        broker.declare_queue(name)
        broker.enqueue(message(name))
        assert owner.llen(f"dramatiq:{name}") == 1
    taken = next(broker.consume(hardware.queue, timeout=100))
    assert taken.args == (1,)
    broker.consume(hardware.queue).ack(taken)
    with pytest.raises(redis.RedisError, match="permission"):
        next(broker.consume("build", timeout=100))
    for words in (("GET", "session"), ("FLUSHALL",), ("ACL", "LIST"), ("CONFIG", "GET", "*")):
        with pytest.raises(redis.exceptions.NoPermissionError):
            broker.client.execute_command(*words)
    assert owner.llen("dramatiq:build") == 1


def test_worker_access_command_prints_an_environment_and_refuses_unknown_queues(
    transactional_db, valkey, capsys
):
    call_command("worker_access", "gpu-9", queues=["hw.test-cpu"])
    printed = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert set(printed) == {"DATABASE_URL", "REDIS_URL"}
    call_command("worker_access", "gpu-9", revoke=True)
    for machine, queues in (("gpu-9", ["hw.x; DROP"]), ("a:b", ["build"])):
        with pytest.raises(CommandError):
            call_command("worker_access", machine, queues=queues)
