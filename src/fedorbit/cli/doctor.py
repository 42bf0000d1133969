"""`fedorbit doctor`: check the installation."""

from dataclasses import asdict
from itertools import pairwise

import typer
from rich.text import Text

from fedorbit.cli.options import AsJson
from fedorbit.cli.output import Column, Table, print_json, stdout
from fedorbit.diagnosis import Finding, can_run, diagnose

STYLES = {"ok": "green", "absent": "dim", "notice": "bold yellow", "problem": "bold red"}
EXIT_CANNOT_RUN = 1


def doctor(as_json: AsJson = False) -> None:
    """Check the installation: backend, hardware, extras, datasets.

    States: [bold]ok[/bold] as it should be, [bold]absent[/bold] an option that is not installed,
    [bold]notice[/bold] costs time or space, [bold]problem[/bold] makes runs impossible. The exit
    code is 1 if there is a problem.

    [bold]Examples[/bold]

    fedorbit doctor

    fedorbit doctor --json | jq '.findings[] | select(.state != "ok")'
    """
    findings = diagnose()
    possible = can_run(findings)
    if as_json:
        print_json(
            {"runs_possible": possible, "findings": [asdict(finding) for finding in findings]}
        )
    else:
        _print_page(findings, possible)
    if not possible:
        raise typer.Exit(EXIT_CANNOT_RUN)


def _print_page(findings: list[Finding], possible: bool) -> None:
    table = Table(
        f"Runs are {'possible' if possible else 'not possible'} on this machine",
        [
            Column("what", left=True),
            Column("state", left=True),
            Column("found", text=True),
        ],
    )
    for finding, following in pairwise([*findings, None]):
        assert finding is not None
        style = None if finding.state == "ok" else STYLES[finding.state]
        table.add_row(finding.name, finding.state, finding.text, style=style)
        if following is not None and following.topic != finding.topic:
            table.add_section()
    table.print()
    for finding in findings:
        if finding.remedy:
            stdout.print(
                Text.assemble(
                    (f"{finding.state}:", STYLES[finding.state]),
                    f" {finding.name}: {finding.remedy}",
                ),
                soft_wrap=True,
            )
