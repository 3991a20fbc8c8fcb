"""Looks up known vulnerabilities of every version that the locks name, in the database of osv.dev.

    python -m make.audit    0: none is known; 1: some are, one a line; 2: the database cannot be asked

It needs the network and is therefore no part of `make check`. OSV_URL names another server of the same interface.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from make.locks import LOCKS, ROOT, pins

__all__ = ["UnansweredError", "main", "vulnerabilities"]

OSV_URL: Final = "https://api.osv.dev"
_SECONDS: Final = 30


class UnansweredError(Exception):
    """The database gave no answer that can be used."""


def main() -> int:
    """Print what is known."""
    url = os.environ.get("OSV_URL", OSV_URL)
    versions = sorted({(name, version) for lock in LOCKS.values() for name, version, _ in pins(ROOT / lock)})
    try:
        found = vulnerabilities(versions, url)
    except UnansweredError as error:
        sys.stderr.write(f"make audit: nothing was looked up, because {url} gave no answer: {error}\n")
        return 2
    for line in found:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(versions)} versions were looked up; {len(found)} vulnerabilities are known\n")
    return 1 if found else 0


def vulnerabilities(versions: Sequence[tuple[str, str]], url: str) -> list[str]:
    """A line for each vulnerability that is known of a name and a version.

    Raises:
        UnansweredError: the server cannot be reached, or does not speak OSV's interface.
    """
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in versions]
    request = urllib.request.Request(  # noqa: S310 - https, or what the developer names
        f"{url}/v1/querybatch", json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
            results: list[dict[str, Any]] = json.load(answer)["results"]
    except (OSError, LookupError, TypeError, ValueError) as cause:
        raise UnansweredError(str(cause).strip() or type(cause).__name__) from cause
    if len(results) != len(versions):
        raise UnansweredError(f"{len(results)} results for {len(versions)} questions")
    return [
        f"{name} {version}: {known['id']}, https://osv.dev/{known['id']}"
        for (name, version), result in zip(versions, results, strict=True)
        for known in result.get("vulns") or ()
    ]


if __name__ == "__main__":
    sys.exit(main())
