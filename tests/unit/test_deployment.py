"""All forms of deployment agree with one list of processes, and what can check their files finds nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from anabranch.engine.registry import load_plugins
from anabranch.settings import Settings
from tests.support.pages import ROOT

DEPLOY = ROOT / "deploy"
ROLES: dict[str, dict[str, Any]] = tomllib.loads((DEPLOY / "roles.toml").read_text())
ENVIRONMENT: dict[str, str] = ROLES.pop("environment")
SERVICES = ["api", "orchestrator", "worker-light", "worker-heavy"]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def read_unit(name: str) -> RawConfigParser:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation shows
    unit.read(DEPLOY / "systemd" / name)
    return unit


def read_compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())  # type: ignore[no-any-return]  # a file of ours


def dockerfile() -> str:
    return (DEPLOY / "image" / "Dockerfile").read_text()


@pytest.mark.parametrize("role", ["migrate", *SERVICES])
def test_units_run_the_listed_processes(role: str) -> None:
    (name,) = [unit.name for unit in UNITS if unit.name.startswith(f"anabranch-{role}")]
    service = read_unit(name)["Service"]
    assert service["ExecStart"].split()[1:] == ROLES[role]["command"]
    if "grace_seconds" in ROLES[role]:
        assert service["TimeoutStopSec"] == str(ROLES[role]["grace_seconds"])


@pytest.mark.parametrize("role", SERVICES)
def test_a_migration_stops_no_service_and_workers_start_with_the_machine(role: str) -> None:
    (name,) = [unit.name for unit in UNITS if unit.name.startswith(f"anabranch-{role}")]
    unit = read_unit(name)
    assert "Requires" not in unit["Unit"]
    assert "anabranch-migrate.service" in unit["Unit"]["Wants"].split()
    assert "anabranch-migrate.service" in unit["Unit"]["After"].split()
    assert unit["Service"]["Restart"] == "always"
    assert ("multi-user.target" in unit["Install"]["WantedBy"].split()) == role.startswith("worker")


@pytest.mark.parametrize("role", ["migrate", *SERVICES])
def test_compose_runs_the_listed_processes(role: str) -> None:
    service = read_compose()["services"][role]
    assert service["command"] == ROLES[role]["command"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    if "grace_seconds" in ROLES[role]:
        assert service["stop_grace_period"] == f"{ROLES[role]['grace_seconds']}s"
    if "port" in ROLES[role]:
        assert service["ports"][0].endswith(f":{ROLES[role]['port']}")
        assert f":{ROLES[role]['port']}{ROLES[role]['ready']}'" in service["healthcheck"]["test"][-1]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can give folders away")
def test_compose_makes_the_folders_with_its_few_capabilities_and_again_at_each_start(tmp_path: Path) -> None:
    service = read_compose()["services"]["folders"]
    kept = ",".join(f"+{capability.lower()}" for capability in service["cap_add"])
    volume = tmp_path / "anabranch"
    volume.mkdir()
    folders = [folder.replace("/srv/anabranch", str(volume)) for folder in service["command"]]
    command = ["setpriv", f"--bounding-set=-all,{kept}", f"--inh-caps=-all,{kept}", *service["entrypoint"], *folders]
    for _ in range(2):
        subprocess.run(command, check=True)
    assert {Path(folder).stat().st_uid for folder in folders} == {10001}


def test_light_and_heavy_workers_serve_every_queue_together() -> None:
    served = {ROLES[role]["command"][2] for role in ("worker-light", "worker-heavy")}
    named = {queue for queue in load_plugins(()).queues if not queue.startswith("plan:")}
    assert set(",".join(served).split(",")) == named


def test_the_image_has_the_listed_environment_and_port() -> None:
    assert dict(re.findall(r"^ +(?:ENV )?(ANABRANCH_\w+)=(\S+)", dockerfile(), re.MULTILINE)) == ENVIRONMENT
    assert re.findall(r"^EXPOSE (\d+)", dockerfile(), re.MULTILINE) == [str(ROLES["api"]["port"])]


def test_the_image_runs_as_an_ordinary_user_from_a_lock_without_tools() -> None:
    assert re.findall(r"^USER (\S+)", dockerfile(), re.MULTILINE) == ["10001:10001"]
    lock = (DEPLOY / "image" / "requirements.lock").read_text()
    pins = set(re.findall(r"^[\w.-]+==[^\s;]+", lock, re.MULTILINE))
    assert pins <= set(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert not {pin.split("==")[0] for pin in pins} & {"pytest", "ruff", "mypy", "uv"}
    assert lock.count("--hash=") >= len(pins)


def test_forms_set_only_settings_that_exist() -> None:
    text = "".join(file.read_text() for file in DEPLOY.rglob("*") if file.is_file() and file.suffix != ".lock")
    used = {name.split("__")[0].lower() for name in re.findall(r"\bANABRANCH_([A-Z_]+[A-Z])\b", text)}
    assert used - set(Settings.model_fields) == {"image", "api_port"}  # those of compose itself


def verify_units(folder: Path) -> str:
    """What systemd says about the units, installed as the how-to does, with a program in place of ours."""
    units, program = folder / "etc" / "systemd" / "system", folder / "opt" / "anabranch" / "bin" / "anabranch"
    (units / "anabranch-.service.d").mkdir(parents=True)
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/true", program)
    shutil.copytree("/usr/lib/systemd/system", folder / "usr" / "lib" / "systemd" / "system", symlinks=True)
    for file in (DEPLOY / "systemd").iterdir():
        place = units / "anabranch-.service.d" if file.suffix == ".conf" else units
        shutil.copy(file, place / file.name)
    names = [unit.name.replace("@.", "@1.") for unit in UNITS]
    command = ["systemd-analyze", "verify", f"--root={folder}", "anabranch.target", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt-get install systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    assert verify_units(tmp_path / "good") == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt-get install systemd")
def test_systemd_would_notice_a_wrong_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DEPLOY / "systemd", tmp_path / "deploy" / "systemd")
    with (tmp_path / "deploy" / "systemd" / "service.conf").open("a") as file:
        file.write("ProtectEverything=yes\n")
    monkeypatch.setattr(sys.modules[__name__], "DEPLOY", tmp_path / "deploy")
    assert "ProtectEverything" in verify_units(tmp_path / "bad")


def test_the_workflow_of_the_forge_runs_the_gate() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    assert [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step] == [".ci/run"]
    assert workflow["permissions"] == {"contents": "read"}


def test_hooks_run_programs_of_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in hooks:
        assert hook["entry"].removesuffix(" --force-exclude") in lint


def validate(schema: str, file: Path) -> str:
    program = ROOT / ".cache" / "deployment-venv" / "bin" / "check-jsonschema"
    command = [str(program), "--output-format", "json", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["status"])


def test_the_image_keeps_no_installer_of_its_base(tmp_path: Path) -> None:
    """The default base has pip and setuptools where Python was installed from source."""
    packages = tmp_path / "lib/python3.11/site-packages"
    for folder in (packages / "pip", packages / "setuptools", tmp_path / "lib/python3.11/ensurepip", tmp_path / "bin"):
        folder.mkdir(parents=True)
    for program in ("pip", "pip3", "pip3.11", "python3.11"):
        (tmp_path / "bin" / program).touch()
    final = dockerfile().rpartition("\nFROM ")[2]
    (command,) = re.findall(r"(?m)^RUN (rm .*)$", final)
    subprocess.run(["sh", "-c", command.replace("/usr/local", str(tmp_path))], check=True)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"bin", "bin/python3.11", "lib", "lib/python3.11", "lib/python3.11/site-packages"}


def test_tools_are_installed_from_locks_and_run_no_scripts_of_packages() -> None:
    """Whatever is fetched is what was looked at: by hash, and without the code that a package would run."""
    places = [ROOT / "Makefile", *(ROOT / "scripts").glob("setup"), ROOT / "tests/support/objects.py"]
    places += [ROOT / ".ci/run", *(ROOT / ".github").rglob("*.yaml")]
    text = "\n".join(place.read_text().replace("\\\n", " ") for place in places)
    installs = re.findall(r"(?:pip (?:install|sync)|npm\"?,? \"?(?:install|i|ci)\b).*", text)
    assert len(installs) >= 5
    for line in installs:
        if "npm" in line:
            assert "--ignore-scripts" in line, line
            assert re.search(r"\bci\b|--package-lock-only|--no-save", line), line
        else:
            assert "--require-hashes" in line or "--no-deps" in line, line
    for lock in (ROOT / "scripts/tools").glob("*.lock"):
        wanted = [line.split("==")[0] for line in lock.with_suffix(".in").read_text().splitlines()]
        pinned = re.findall(r"(?m)^([a-z0-9._-]+)(?:\[.*\])?==\S+.*\n    --hash=", lock.read_text())
        assert {name.partition("[")[0] for name in wanted} <= set(pinned), lock.name
    for package in (ROOT / "scripts/tools").glob("*/package-lock.json"):
        packages = {name: one for name, one in json.loads(package.read_text())["packages"].items() if name}
        assert packages
        assert all("integrity" in one and "resolved" not in one for one in packages.values() if "version" in one)


TOOLS = pytest.mark.skipif(not (ROOT / ".cache" / "deployment-venv").exists(), reason="make deployment")


@TOOLS
def test_compose_and_the_workflow_follow_their_schemas(tmp_path: Path) -> None:
    compose, workflow = DEPLOY / "compose" / "compose.yaml", ROOT / ".github" / "workflows" / "ci.yaml"
    assert validate("vendor.compose-spec", compose) == "ok"
    assert validate("vendor.github-workflows", workflow) == "ok"
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(compose.read_text().replace("read_only: true", "read_only: [1]"))
    assert validate("vendor.compose-spec", wrong) == "fail"


@TOOLS
def test_the_dockerfile_has_no_finding() -> None:
    program = ROOT / ".cache" / "deployment-venv" / "bin" / "hadolint"
    done = subprocess.run([program, DEPLOY / "image" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.stdout == ""
