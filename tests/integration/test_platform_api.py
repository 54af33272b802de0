"""What partners and operators send to a server: orders, keys of requests, settings of platforms, and wrong values."""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.access import Scope
from anabranch.api.openapi.document import load_document
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, make_key, serve_api

pytestmark = pytest.mark.postgres

JOBS_PER_DAY = 3
SETTINGS: Mapping[str, Any] = {
    "title": "Partner", "required_refs": ["dataset"], "version_ref": "version",
    "workflows": {"raster": "process_raster"},
}  # fmt: skip
Answer = tuple[int, str | None]


class Partner:
    """Requests under the keys of a platform of its own."""

    def __init__(self, api: httpx.Client, admin: str, url: str, name: str) -> None:
        self.api, self.admin, self.url, self.name = api, {"Authorization": f"Bearer {admin}"}, url, name
        self.key = {"Authorization": f"Bearer {make_key(url, Scope.OPERATE, name)}"}

    def save(self, platform: str | None = None, **change: Any) -> httpx.Response:
        """Save the settings of the platform."""
        return self.api.put(f"/api/platforms/{platform or self.name}", json={**SETTINGS, **change}, headers=self.admin)

    def order(self, dataset: Any, *, key: str | None = None, path: str = "submit", **more: Any) -> httpx.Response:
        """Submit an order."""
        refs = {"dataset": dataset, **more.pop("refs", {})}
        body = {"platform": self.name, "refs": refs, "source": f"bronze://{self.name}/a.tif", **more}
        return self.post(f"/api/platform/{path}", body, key=key)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> httpx.Response:
        """Send a request, with a key of the request."""
        given = {"Idempotency-Key": key} if key else {}
        return self.api.post(path, json=body, headers={**self.key, **given})

    def get(self, path: str, **query: str) -> httpx.Response:
        """Fetch a path."""
        return self.api.get(path, params=query or None, headers=self.key)

    def count(self, table: str) -> int:
        """How many rows the platform has."""
        with psycopg.connect(self.url) as connection:
            connection.execute("select app.set_platform_filter('*')")
            row = connection.execute(
                f"select count(*) from app.{table} where platform = %s",
                [self.name],
            ).fetchone()
        return row[0] if row else 0


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("platforms") / "home"
    with serve_api(url, home, auth="keys", platform_jobs_per_day=str(JOBS_PER_DAY)) as api:
        yield api


@pytest.fixture(scope="module")
def partner_of(url: str, served: Served) -> Callable[..., Partner]:
    admin = make_key(url, Scope.ADMIN)

    def make(name: str, **settings: Any) -> Partner:
        made = Partner(served.client, admin, url, name)
        assert made.save(**settings).status_code == 200
        return made

    return make


def read(answer: httpx.Response) -> Answer:
    return answer.status_code, answer.json().get("code") if answer.content else None


def test_ts9_orders_are_jobs_of_the_day(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("quota")
    assert [partner.order(n, path="submit?dry_run=true").status_code for n in range(5)] == [200] * 5
    first = partner.order(1)
    assert [first.status_code, partner.order(1).status_code] == [202, 200]
    assert partner.order(2, path="submit_dag").status_code == 202
    job = partner.post("/api/jobs/submit/echo", {"message": "a"})
    assert job.status_code == 202
    assert read(partner.post("/api/jobs/submit/echo", {"message": "b"})) == (429, "quota.jobs")
    refused = partner.order(3)
    assert read(refused) == (429, "quota.jobs")
    assert "Retry-After" in refused.headers
    assert read(partner.order(3, path="submit_dag")) == (429, "quota.jobs")
    assert partner.order(1).status_code == 200  # what is there needs no job
    assert partner.order(3, path="submit?dry_run=true").status_code == 200

    release = first.json()
    assert partner.post(f"/api/jobs/{release['job_id']}/cancel", {}).is_success
    assert read(partner.post(f"/api/platform/releases/{release['release_id']}/resubmit")) == (429, "quota.jobs")


def test_ts9_orders_in_a_partners_own_shape_are_jobs_of_the_day(url: str, partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("shapes")
    ddh = {"Authorization": f"Bearer {make_key(url, Scope.SUBMIT, 'ddh')}"}
    bodies = [{"dataset_id": n, "resource_id": 1, "file_name": "ddh/a.tif"} for n in range(JOBS_PER_DAY + 1)]
    answers = [partner.api.post("/api/platform/ddh/submit", json=body, headers=ddh) for body in bodies]
    assert [read(answer) for answer in answers] == [(202, None)] * JOBS_PER_DAY + [(429, "quota.jobs")]


def test_e15_the_same_key_is_the_same_answer_to_an_order(partner_of: Callable[..., Partner]) -> None:
    partner, other = partner_of("keyed"), partner_of("keyed-too")
    # Each may count for the day until it is known to be a repetition.
    with ThreadPoolExecutor(JOBS_PER_DAY) as pool:
        sent = [pool.submit(partner.order, 1, key="k", overwrite=True) for _ in range(JOBS_PER_DAY)]
    answers = [one.result() for one in sent]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == JOBS_PER_DAY - 1
    assert (partner.count("revisions"), partner.count("requests")) == (1, 1)

    assert read(partner.order(1, key="k", overwrite=True, title="Other")) == (409, "idempotency.conflict")
    assert read(partner.post("/api/jobs/submit/echo", {"message": "a"}, key="k")) == (409, "idempotency.conflict")
    assert read(partner.order(1, key="x" * 256)) == (422, "idempotency.key")
    assert other.order(1, key="k").status_code == 202

    assert partner.order(1, key="k2", overwrite=True).json()["revision"] == 2
    assert partner.order(1, key="k", overwrite=True).text == answers[0].text
    assert partner.count("revisions") == 2


def test_e15_the_same_key_is_the_same_answer_where_nothing_was_made(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("again")
    made = partner.order(1).json()
    same = partner.order(1, key="k")
    assert (same.status_code, same.json()["verdict"]) == (200, "same")
    assert partner.post(f"/api/jobs/{made['job_id']}/cancel", {}).is_success
    again = partner.order(1, key="k")
    assert (again.status_code, again.text) == (200, same.text)

    path = f"/api/platform/releases/{made['release_id']}/resubmit"
    first, second = (partner.post(path, key="r") for _ in range(2))
    assert (first.status_code, first.json()["revision"], second.text) == (202, 2, first.text)
    assert read(partner.order(1, key="r")) == (409, "idempotency.conflict")
    assert partner.count("revisions") == 2


DOCUMENT = load_document()
WRONG_REFERENCE = "Input should be a text of 1 to 200 characters, without control characters, or a whole number"


@pytest.mark.parametrize(
    ("given", "where", "detail"),
    [
        ({"refs": {"version": 2025.10}}, "body.refs.version", WRONG_REFERENCE),
        ({"refs": {"version": True}}, "body.refs.version", WRONG_REFERENCE),
        ({"refs": {"version": "x" * 201}}, "body.refs.version", WRONG_REFERENCE),
        ({"overwrite": "yes"}, "body.overwrite", "Input should be a valid boolean"),
        ({"reprocess": 1}, "body.reprocess", "Input should be a valid boolean"),
        ({"approval": "off"}, "body.approval", "Input should be a valid boolean"),
    ],
)
def test_o6_a_mistake_in_an_order_is_named_once(
    partner_of: Callable[..., Partner], given: Mapping[str, Any], where: str, detail: str
) -> None:
    answer = partner_of("once").order(1, **given)
    assert read(answer) == (422, "request.invalid")
    assert answer.json()["errors"] == [{"where": where, "detail": detail}]


UNREADABLE = "this job may not read {}: it is not among the uploads, folders and published files of its platform"


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("http://example.org/a.tif", "there is no tier 'http'. The tiers are bronze, silver, gold"),
        ("file:///etc/a.tif", "there is no tier 'file'. The tiers are bronze, silver, gold"),
        ("bronze://other/a.tif", UNREADABLE),
        ("silver://reads/a.tif", UNREADABLE),
        ("silver://jobs/" + "0" * 64 + "/n/0/1/a.tif", UNREADABLE),
        ("bronze://uploads/other/" + "0" * 64 + "/a.tif", UNREADABLE),
        ("bronze://uploads/" + "0" * 64 + "/a.tif", UNREADABLE),
    ],
)
def test_s1_an_order_of_a_source_that_no_job_of_its_platform_may_read_is_refused(
    partner_of: Callable[..., Partner], source: str, detail: str
) -> None:
    partner = partner_of("reads")
    for path in ("submit", "submit?dry_run=true"):
        answer = partner.order(1, path=path, source=source, refs={"unknown": 1})
        assert read(answer) == (422, "request.invalid")
        said = {one["where"]: one["detail"] for one in answer.json()["errors"]}
        assert said.keys() - {"parameters.source"} == {"body.refs", "body.source"}
        assert said["body.source"].startswith(detail.format(source))
        assert partner.order(1, path=path, source=source).status_code == 422
    assert partner.count("requests") == 0
    for own in ("bronze://reads/a.tif", "bronze://uploads/reads/" + "0" * 64 + "/a.tif"):
        assert partner.order(1, path="submit?dry_run=true", source=own).status_code == 200


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"options": {"webhook_retry_count": 3}}, "body"),
        ({"callback_retries": 3}, "body"),
        ({"callback_url": "https://example.org/", "callback_timeout_seconds": "15"}, "body.callback_timeout_seconds"),
        ({"callback_url": "https://example.org/", "callback_retries": True}, "body.callback_retries"),
    ],
)
def test_o6_fields_of_a_callback_are_checked(
    partner_of: Callable[..., Partner], given: Mapping[str, Any], where: str
) -> None:
    answer = partner_of("calls").order(1, path="submit?dry_run=true", **given)
    assert read(answer) == (422, "request.invalid")
    assert [one["where"] for one in answer.json()["errors"]] == [where]


def test_p8_keys_of_a_retired_platform_start_no_jobs(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("closed")
    assert partner.api.delete("/api/platforms/closed", headers=partner.admin).is_success
    assert read(partner.post("/api/jobs/submit/echo", {"message": "a"})) == (409, "platform.retired")
    assert read(partner.order(1)) == (409, "platform.retired")
    lines = '{"workflow": "echo", "parameters": {"message": "a"}}\n'
    bulk = partner.api.post(
        "/api/jobs/bulk", content=lines, headers={**partner.key, "Content-Type": "application/x-ndjson"}
    )
    assert "platform.retired" in bulk.text
    assert partner.get("/api/jobs").json()["items"] == []
    assert partner.save().status_code == 200
    assert partner.post("/api/jobs/submit/echo", {"message": "a"}).status_code == 202


def test_p6_a_cancelled_release_is_not_told_to_be_submitted_as_a_job(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("stopped")
    made = partner.order(1).json()
    assert partner.post(f"/api/jobs/{made['job_id']}/cancel", {}).is_success
    error = partner.get(f"/api/platform/status/{made['release_id']}").json()["error"]
    assert error["code"] == "job.cancelled"
    assert "releases resubmit" in error["remedy"]


def resolve(parameter: Mapping[str, Any]) -> Mapping[str, Any]:  # of the OpenAPI document
    name = str(parameter.get("$ref", "")).rpartition("/")[2]
    return DOCUMENT["components"]["parameters"][name] if name else parameter


# One operation for each parameter as it is declared: what is declared the same is checked the same.
OPERATIONS = {
    (parameter["name"], repr(parameter["schema"])): (method, path, parameter)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    for parameter in map(resolve, operation.get("parameters", ()))
    if re.match("/api/(platform|approvals|webhooks)", path) and parameter["in"] in ("path", "query")
}
IDS = {
    "endpoint_id": "00000000-0000-0000-0000-000000000005", "delivery_id": "9", "platform": "nop",
    "asset_id": "2" * 32, "release_id": "3" * 32, "id": "4" * 32, "job_id": "5" * 64,
}  # fmt: skip
WRONG = (
    "\x00", "a=\x00", "a=b\nc", "\x7f", "\ud800", "a=\ud800", "\U0010ffff", "-" * 32, "-" * 36, "-" * 64, "0" * 33,
    "0" * 5000, "a=" + "b" * 5000, "-1", str(2**63), str(2**200), "4" * 32 + "\n", "a=" + "é" * 240,
    "00000000-0000-0000-0000-00000000000g", "{00000000-0000-0000-0000-000000000000}", "", "*", "..",
)  # fmt: skip


def test_ts1_no_value_of_a_parameter_is_an_internal_error(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("wrong")
    for method, path, parameter in OPERATIONS.values():
        for value in WRONG:
            written = quote(value.encode("utf-8", "surrogatepass"), safe="")
            in_path = {parameter["name"]: written} if parameter["in"] == "path" else {}
            target = path.format(**{**IDS, **in_path})
            query = f"?{parameter['name']}={written}" if parameter["in"] == "query" else ""
            body: dict[str, Any] = {"json": {}} if method in ("post", "put", "patch") else {}
            answer = partner.api.request(method.upper(), target + query, headers=partner.admin, **body)
            assert answer.status_code < 500, (method, target[:200], query[:200], answer.text)


TEXTS = ("\x01", "a\nb", "\x7f", "\u2028", "\U0010ffff", "é" * 199, "x" * 5000, " ", "")


@pytest.mark.parametrize("name", ["refs", "ref_name", "source", "title", "description", "tags", "options", "platform"])
def test_ts1_no_text_of_an_order_is_an_internal_error(partner_of: Callable[..., Partner], name: str) -> None:
    partner = partner_of("texts")
    for text in TEXTS:
        body: dict[str, Any] = {"refs": {"dataset": "1"}, "platform": "texts", "source": "bronze://texts/a.tif"}
        given = {"refs": {"dataset": text}, "tags": [text], "options": {text: text}}
        body |= {"refs": {"dataset": "1", text: "1"}} if name == "ref_name" else {name: given.get(name, text)}
        answer = partner.post("/api/platform/submit?dry_run=true", body)
        assert answer.status_code in (200, 404, 422), (text[:40], answer.text)


def test_a_status_is_that_of_an_id(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("status")
    for wrong in ("-" * 36, "0" * 35 + "-", "0" * 7, "0" * 65, "nonsense"):
        answer = partner.get(f"/api/platform/status/{wrong}")
        assert read(answer) == (422, "request.invalid")
        assert "a UUID" in answer.json()["detail"]
        assert "pattern" not in answer.json()["detail"]
    for wrong in ("nonsense", "0" * 31):
        answer = partner.get(f"/api/platform/releases/{wrong}/preview")
        assert "32 hexadecimal digits" in answer.json()["detail"]
    for absent in ("0" * 32, "0" * 64, "0" * 12, "00000000-0000-0000-0000-000000000000"):
        assert read(partner.get(f"/api/platform/status/{absent}")) == (404, "release.not_found")
    assert read(partner.get("/api/platform/releases", ref="a=\x00")) == (422, "request.invalid")
    twice = partner.get("/api/platform/releases?ref=a=1&ref=a=2")
    assert twice.json()["errors"] == [{"where": "query.ref", "detail": "Each reference is given once"}]


def test_p1_an_asset_shows_its_newest_release(partner_of: Callable[..., Partner]) -> None:
    """The first release of it has no version."""
    partner = partner_of("newest")
    first = partner.order("é").json()
    assert partner.get(f"/api/platform/status/{first['release_id']}").json()["version"] is None
    partner.post(f"/api/jobs/{first['job_id']}/cancel", {})
    second = partner.order("é", refs={"version": "2"}).json()
    assert second["asset_id"] == first["asset_id"]
    shown = partner.get(f"/api/platform/status/{first['asset_id']}").json()
    assert (shown["release_id"], shown["version"]) == (second["release_id"], "2")
    for made in (first, second):
        assert partner.get(f"/api/platform/status/{made['release_id']}").json()["release_id"] == made["release_id"]
    for job_id in (second["job_id"], second["job_id"][:12], second["job_id"][:36]):
        assert partner.get(f"/api/platform/status/{job_id}").json()["release_id"] == second["release_id"]
    assert partner.order("e\u0301", refs={"version": "2"}).json()["release_id"] == second["release_id"]
    assert read(partner.order(True)) == (422, "request.invalid")


def test_releases_are_found_by_their_references_and_version(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("finds", optional_refs=["part"])
    made = [
        partner.order(number, refs={"version": version, "part": "a"}).json()["release_id"]
        for number, version in ((1, "2025-01"), (2, "2025-01"), (3, "2025-02"))
    ]

    def find(*refs: str) -> list[str]:
        answer = partner.get("/api/platform/releases?" + "&".join(f"ref={ref}" for ref in refs))
        assert answer.status_code == 200, answer.text
        return [one["release_id"] for one in answer.json()["items"]]

    assert find("version=2025-01") == [made[1], made[0]]
    assert find("version=2025-01", "dataset=2") == [made[1]]
    assert find("part=a", "version=2025-02") == [made[2]]
    assert find("dataset=1", "version=2025-02") == find("version=2026-01") == []
    refused = partner.get("/api/platform/releases?ref=nope=1&ref=dataset=1")
    assert read(refused) == (422, "request.invalid")
    assert refused.json()["errors"] == [
        {"where": "query.ref", "detail": "there is no reference 'nope'; known: dataset, part, version"}
    ]


def test_p4_what_failed_is_not_found_as_waiting_for_a_review(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("waits")
    failed, open_one = partner.order(1).json(), partner.order(2).json()
    assert partner.post(f"/api/jobs/{failed['job_id']}/cancel", {}).is_success

    def find(**query: str) -> list[str]:
        return [one["release_id"] for one in partner.get("/api/platform/releases", **query).json()["items"]]

    assert find(approval_status="pending_review") == [open_one["release_id"]]
    assert find(processing_status="failed") == [failed["release_id"]]


def test_p3_a_refusal_names_the_release_that_stands_against_it(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("names")
    first = partner.order(1, refs={"version": "1"}).json()["release_id"]
    refused = partner.order(1, refs={"version": "2"})
    assert read(refused) == (409, "release.unresolved")
    assert f"release {first} of asset" in refused.json()["detail"]
    assert "is being processed" in refused.json()["detail"]
    assert f"/api/platform/status/{first}" in refused.json()["remedy"]
    assert "approve" not in refused.json()["remedy"]


def test_o6_another_version_is_named_only_where_there_are_versions(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("unversioned", version_ref=None, approval="none", workflows={"raster": "process_raster"})
    assert partner.order(1).status_code == 202
    with psycopg.connect(partner.url) as connection:
        connection.execute("select app.set_platform_filter('*')")
        connection.execute("set local session_replication_role = replica")
        connection.execute("update app.revisions set processing_status = 'completed' where platform = 'unversioned'")
    refused = partner.order(1, title="Other")
    assert read(refused) == (409, "release.exists")
    assert "version" not in refused.json()["remedy"]


def test_a_status_has_the_progress_of_its_job(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("progress")
    made = partner.order(1).json()
    shown = partner.get(f"/api/platform/status/{made['request_id']}").json()
    assert (shown["processing_status"] in ("queued", "processing"), shown["progress"]) == (True, 0.0)
    assert shown["links"].keys() == {"status", "job"}
    partner.post(f"/api/jobs/{made['job_id']}/cancel", {})
    assert partner.get(f"/api/platform/status/{made['release_id']}").json()["progress"] is None

    body = {"action": "approve", "release_ids": [made["release_id"]]}
    (refused,) = partner.post("/api/platform/releases", body).json()
    assert refused["code"].startswith("release.")
    assert refused["remedy"]
    (moved,) = partner.post("/api/platform/releases", {**body, "revisions": {made["release_id"]: 7}}).json()
    assert moved["code"] == "release.moved"
    assert "7" in moved["message"]
    for wrong in ({"revisions": {"0" * 32: 1}}, {"revisions": {made["release_id"]: 1}, "action": "revoke"}):
        assert read(partner.post("/api/platform/releases", {**body, **wrong})) == (422, "request.invalid")


def test_p9_messages_of_releases_name_the_partners_version(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("told")
    assert partner.post("/api/webhooks", {"url": "https://example.com/hook"}).status_code == 201
    partner.order(1, refs={"version": "2025-01"})
    with psycopg.connect(partner.url) as connection:
        query = "select data from app.webhook_messages where event = 'release.created' and platform = 'told'"
        ((said,),) = connection.execute(query).fetchall()
    assert said["release_version"] == "2025-01"
    assert "version" not in said


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"workflows": {"raster": "nothing"}}, "platform.workflow"),
        ({"workflows": {"raster": "hello_world"}, "approval": "none"}, "platform.workflow"),
        ({"workflows": {"raster": "hello_world"}}, "platform.workflow"),
        ({"callback_hosts": ["https://example.org/hook"]}, "request.invalid"),
        ({"callback_hosts": ["*"]}, "request.invalid"),
        ({"optional_refs": [f"r{n}" for n in range(19)]}, "request.invalid"),
        ({"version_ref": "dataset"}, "request.invalid"),
        ({"optional_refs": ["version"]}, "request.invalid"),
        ({"optional_refs": ["dataset"]}, "request.invalid"),
        ({"required_refs": ["a", "a"]}, "request.invalid"),
        ({"optional_refs": ["Two Words"]}, "request.invalid"),
        ({"title": "a\nb"}, "request.invalid"),
        ({"title": "Partner "}, "request.invalid"),
        ({"callback_hosts": ["169.254.169.254"]}, "request.invalid"),
        ({"callback_hosts": ["[fe80::1]:80"]}, "request.invalid"),
        ({"sources": ["file:///etc"]}, "request.invalid"),
    ],
)
def test_o6_settings_of_a_platform_are_checked_when_they_are_saved(
    partner_of: Callable[..., Partner], change: dict[str, Any], code: str
) -> None:
    partner = partner_of("settings")
    assert read(partner.save(**change)) == (422, code)


def test_o6_a_tier_that_is_unknown_is_named(partner_of: Callable[..., Partner]) -> None:
    answer = partner_of("tiers").save(sources=["file:///etc"])
    (mistake,) = answer.json()["errors"]
    assert mistake == {
        "where": "body.sources.0", "detail": "there is no tier 'file'. The tiers are bronze, silver, gold.",
    }  # fmt: skip


def test_hosts_of_a_platform_are_written_as_they_are_compared(partner_of: Callable[..., Partner]) -> None:
    partner = partner_of("hosts", callback_hosts=["Hooks.Example.ORG:8443", "10.0.0.7"])
    (saved,) = partner.get("/api/platforms").json()
    assert saved["callback_hosts"] == ["hooks.example.org:8443", "10.0.0.7"]
    hook = partner.post("/api/webhooks", {"url": "http://HOOKS.example.org:8443/hook"})
    assert hook.status_code == 201, hook.text


@pytest.mark.parametrize("path", ["/api/keys", "/api/webhooks"])
@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("nobody", (404, "platform.not_found")),
        ("*", (422, "request.invalid")),
        ("default", (201, None)),
        ("ddh", (201, None)),
    ],
)
def test_s1_keys_and_endpoints_belong_to_a_platform_that_exists(
    partner_of: Callable[..., Partner], path: str, platform: str, expected: Answer
) -> None:
    partner = partner_of("owner")
    body = {"name": "ci", "scope": "read"} if path == "/api/keys" else {"url": "https://example.com/hook"}
    answer = partner.api.post(path, json={**body, "platform": platform}, headers=partner.admin)
    assert read(answer) == expected
