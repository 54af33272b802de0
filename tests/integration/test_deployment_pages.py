"""The commands of the pages on deployment: run where they can be, in a folder; else what they name is there.

Nothing here starts a container, a cluster or a unit; tests of deploy/ run or check those files.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from anabranch.cli.main import call
from anabranch.manifests.signing_key import SigningKey
from anabranch.sealing import Sealer
from tests.support.pages import ROOT, list_commands

FORMS = ("compose", "image", "kubernetes", "systemd")
COMMANDS = [(form, command) for form in FORMS for command in list_commands(f"docs/howto/deploy-{form}.md")]
KEY = 'keys create "first admin" --scope admin'
COMPOSE = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())


def run(command: str, folder: Path) -> None:
    done = subprocess.run(["bash", "-ec", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_keys(command: str, folder: Path) -> None:
    run(command, folder)
    made = {name: (folder / name).read_bytes() for name in ("signing-key.pem", "webhook-key")}
    SigningKey.open(folder / "signing-key.pem")
    Sealer.open(folder / "webhook-key")
    assert {name: (folder / name).read_bytes() for name in made} == made, "we read them as they are"
    assert {(folder / name).stat().st_mode & 0o777 for name in made} == {0o600}


def copy_files(command: str, folder: Path) -> None:
    """Into a folder instead of the root, and without users that are not there."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    for name in ("signing-key.pem", "webhook-key"):
        (folder / name).touch()
    moved = re.sub(r"-[og] anabranch ", "", re.sub(r"(?<= )/(?=etc|srv)", f"{folder}/", command))
    for target in ("etc/systemd/system", "etc/anabranch"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    run(moved, folder)


def name_units(command: str, _: Path) -> None:
    for unit in command.split():
        if unit.startswith("anabranch"):
            assert (ROOT / "deploy/systemd" / re.sub(r"@\d+", "@", unit)).exists(), unit


def name_files(command: str, _: Path) -> None:
    """What is read from a clone is in it; a wheel has the version of this one."""
    for word in shlex.split(command):
        if word.startswith("deploy/") and not word.endswith(".env"):
            assert (ROOT / word).exists(), word
        if word.startswith("dist/"):
            assert re.fullmatch(r"dist/anabranch-\d+\.\d+\.\d+-py3-none-any\.whl", word)


def name_service(command: str, folder: Path) -> None:
    name_files(command, folder)
    if found := re.search(r" exec (\S+) anabranch ", command):
        assert found[1] in COMPOSE["services"]


def ask_kubectl(command: str, folder: Path) -> None:
    """Secrets have the names and files that the manifests read; what needs a cluster names what they make."""
    name_files(command, folder)
    manifests = "".join(path.read_text() for path in (ROOT / "deploy/kubernetes").rglob("*.yaml"))
    if found := re.search(r"create secret generic (\S+)", command):
        assert re.search(rf"(secretName|name): {found[1]}\b", manifests)
        for file in re.findall(r"--from-file=(\S+)", command):
            (folder / file).touch()
            assert file in (ROOT / "deploy/kubernetes/base/settings.env").read_text()
    if found := re.search(r"deployment/(\S+)", command):
        assert re.search(rf"kind: Deployment\nmetadata:\n  name: {found[1]}\n", manifests)
    if re.match(r"kubectl (-n anabranch )?create (secret|namespace) ", command) and shutil.which("kubectl"):
        run(f"KUBECONFIG=/dev/null {command} --dry-run=client --output=yaml", folder)


def understand(command: str, _: Path) -> None:
    """Standard commands of a system; the shell reads them."""
    subprocess.run(["bash", "-nc", command], check=True)


WAYS: dict[str, Callable[[str, Path], None]] = {
    r"\(umask 077 && openssl ": make_keys,
    r"install |cp ": copy_files,
    r"systemctl |systemd-run ": name_units,
    r"docker compose ": name_service,
    r"kubectl ": ask_kubectl,
    r"podman |\S+/pip install ": name_files,
    r"useradd |chown |python3 -m venv ": understand,
}


@pytest.mark.parametrize(("form", "command"), COMMANDS)
def test_a_command_runs_or_names_what_is_there(form: str, command: str, tmp_path: Path) -> None:
    ways = [way for begin, way in WAYS.items() if re.match(begin, command)]
    assert len(ways) == 1, f"nothing checks the command {command!r} of the page on {form}"
    understand(command, tmp_path)
    ways[0](command, tmp_path)


@pytest.mark.postgres
def test_the_first_key_is_made_as_the_pages_say(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {form for form, command in COMMANDS if KEY in command} == set(FORMS)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", database_url)
    assert call(shlex.split(KEY)) == 0
    assert "anb_" in capsys.readouterr().out
