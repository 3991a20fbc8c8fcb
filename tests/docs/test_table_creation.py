"""The command of docs/deployment.md that creates a table is the one that icefloe prints."""

import shlex

from icefloe.storage.dynamodb_access import DynamodbAccess
from support.pages.claims import Kind, claimed


def test_the_page_has_the_command_of_the_error() -> None:
    [block] = claimed(Kind.TABLE)
    words = [word for word in shlex.split(block.text) if word != "\n"]
    assert words == shlex.split(DynamodbAccess(table="icefloe").creation_command)
