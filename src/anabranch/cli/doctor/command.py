"""`doctor`: checks this machine and this home, and prints what to do if something is missing."""

from dataclasses import asdict

import typer

from anabranch.cli.doctor.checks import examine
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import coloured, print_json, print_line
from anabranch.errors import Kind

__all__ = ["doctor"]

NAME_WIDTH = 13


def doctor(json: Json = False) -> None:
    """Check the machine, the home and the stack that runs there."""
    findings = list(examine())
    failed = any(finding.status == "fail" for finding in findings)
    if json:
        print_json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print_line(f"{coloured(finding.status.ljust(4))}  {finding.check.ljust(NAME_WIDTH)}  {finding.message}")
            if finding.remedy:
                print_line(f"{'':{NAME_WIDTH + 8}}{finding.remedy}")
    if failed:
        raise typer.Exit(Kind.UNAVAILABLE.exit_code)
