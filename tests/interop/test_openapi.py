"""schemathesis asks every operation of the OpenAPI document, as every role, what fits its schema and what does not. No answer
is a failure of the server, none has a status or a content type that the document does not have, and no role does what
another one may."""
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from api_daemon import ROLES, api_daemon

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/openapi.json"
# Answers without end: their head counts. The places of those that have just ended may be taken still, which is 503.
STREAMS = {"/v1/events", "/v1/live", "/v1/trace", "/v1/mirror"}
# What takes the sessions away from the daemon, which ends then.
ENDS = {"/v1/export", "/v1/export/end"}
EXAMPLES = 6
LIMITS = ", requests_per_address_s: 100000"


@pytest.fixture(scope="module")
def daemon():
    with api_daemon(https=LIMITS) as daemon:
        yield daemon


def operations():
    schema = schemathesis.openapi.from_path(str(DOCUMENT))
    return [found.ok() for found in schema.get_all_operations()]


def ask(session, daemon, token, case):
    """Status and content type of the answer to a case."""
    wanted = case.as_transport_kwargs(base_url=f"https://localhost:{daemon.port}")
    # schemathesis has one of its own from the document: any text.
    wanted["headers"]["Authorization"] = f"Bearer {token}"
    is_stream = case.operation.path in STREAMS
    with session.request(**wanted, stream=is_stream, timeout=30, verify=str(daemon.files / "ca.pem")) as answer:
        return answer.status_code, answer.headers.get("Content-Type", "")


def check(operation, role, status, content):
    raw = operation.definition.raw
    may = ROLES.index(role) >= ROLES.index(raw["x-role"])
    if not may:
        # A path that is another one, as with a slash in a name, is of no route and no role.
        is_other = "{" in operation.path and status in (404, 405)
        assert status == 403 or is_other, f"{status} for {role}, not 403"
        return
    # A request that HTTP does not have, or of a path that is another one, is refused ahead of any route.
    ahead = {"400", "404", "405", "411", "414", "415", "422", "431"}
    assert str(status) in set(raw["responses"]) | ahead, f"{status} is not documented"
    assert status != 401, "a right token is refused"
    if operation.path not in STREAMS:
        assert status < 500, status
    documented = raw["responses"].get(str(status), {}).get("content", {})
    if documented and status < 400:
        assert any(content.startswith(kind) for kind in documented), content


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.label)
def test_no_answer_is_a_failure_and_no_role_is_passed(daemon, operation, role):
    needed = operation.definition.raw["x-role"]
    may = ROLES.index(role) >= ROLES.index(needed)
    if may and operation.path in ENDS:
        return
    with requests.Session() as session:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and not (operation.query or operation.path_parameters or operation.body):
                continue

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=EXAMPLES if may else 2, deadline=None, database=None, derandomize=True,
                      phases=[Phase.generate], suppress_health_check=list(HealthCheck))
            def asked(case):
                status, content = ask(session, daemon, daemon.tokens[role], case)
                check(operation, role, status, content)

            asked()
