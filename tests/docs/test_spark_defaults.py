"""The settings of a cluster that docs/spark.md tells to write are those that clusters here run with."""

import re

from support.pages.blocks import ROOT
from support.pages.claims import Kind, claimed
from support.servers.spark_cluster import DEFAULTS

[BLOCK] = claimed(Kind.SPARK_DEFAULTS)


def test_the_page_names_the_settings_of_the_tests_cluster() -> None:
    assert BLOCK.text.split() == DEFAULTS.format(secret="SECRET").split()


def test_the_compose_file_writes_the_same() -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    script = text.partition("x-with-spark-secret:")[2].partition("exec ")[0]
    found = dict(re.findall(r"(spark\.[\w.]+) ([\w/%]+)", script))
    assert found == dict(line.split() for line in DEFAULTS.format(secret="%s").splitlines() if line)
