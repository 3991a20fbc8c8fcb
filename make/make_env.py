"""Write a .env with new secrets for every variable of .env.example; one that is there is left as it is."""

import argparse
import base64
import os
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main", "make_env"]

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLE: Final = ROOT / ".env.example"
_VARIABLE: Final = re.compile(r"^([A-Z][A-Z0-9_]*)=$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Write the file and say where it is, or that it is there."""
    parser = argparse.ArgumentParser(prog="python -m make.make_env", description=__doc__)
    parser.add_argument("path", type=Path, nargs="?", default=ROOT / ".env")
    path = parser.parse_args(arguments).path
    sys.stdout.write(f"New secrets are in {path}\n" if make_env(path) else f"{path} exists and is left unchanged\n")
    return 0


def make_env(path: Path) -> bool:
    """Writes the file and returns True, or False if it exists. Only its owner may read it."""
    text = _VARIABLE.sub(lambda found: f"{found[1]}={_secret(found[1])}", EXAMPLE.read_text(encoding="utf-8"))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def _secret(variable: str) -> str:
    if variable.endswith("_FERNET_KEY"):
        return base64.urlsafe_b64encode(os.urandom(32)).decode()
    # A key is a name that shows in logs and is no secret; some stores want it short.
    return secrets.token_hex(10) if variable.endswith("_ACCESS_KEY") else secrets.token_urlsafe(48)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
