from collections.abc import Iterator

import pytest

from histories.trial import Laboratory
from support.spark.spark_lab import SparkLab
from support.tables.small_rewrites import fast_ways_of_small_files


@pytest.fixture(scope="module", autouse=True)
def every_fast_way() -> Iterator[None]:
    """Tables of histories are small, and no way to find changes is to be left out for that."""
    with fast_ways_of_small_files():
        yield


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    """One for all histories; it asks for Spark when the first history needs it."""

    def spark_lab() -> SparkLab:
        return request.getfixturevalue("spark_lab")

    laboratory = Laboratory(tmp_path_factory.mktemp("histories"), spark_lab)
    yield laboratory
    laboratory.close()
