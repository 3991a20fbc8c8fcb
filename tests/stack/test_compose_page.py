"""docs/compose.md: its commands are those of docker compose, and its names those of the file."""

import re
from pathlib import Path

import yaml

from support.stack.compose_page import PAGE, documented_commands

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
SUBCOMMANDS = {"down", "logs", "ps", "run", "up"}


def test_its_commands_name_services_of_the_file() -> None:
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", [])}
    for words in documented_commands():
        if words[0] == "--profile":
            assert words[1] in profiles
        subcommand, *arguments = words[2:] if words[0] == "--profile" else words
        assert subcommand in SUBCOMMANDS
        names = [argument for argument in arguments if not argument.startswith("-")]
        assert set(names[:1]) <= set(SERVICES)


def test_its_table_lists_every_service_and_the_ports_that_this_machine_sees() -> None:
    table = PAGE.partition("## With Docker")[0]
    listed = [name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)]
    assert sorted(listed) == sorted(SERVICES)
    published = {port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])}
    assert published == set(re.findall(r"http://localhost:(\d+)", table))


def test_variables_and_volumes_it_names_are_in_the_file() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    for name in re.findall(r"`([A-Z][A-Z0-9_]{5,})`", PAGE):
        assert name in text, name
