import pytest

from histories.trial import Laboratory
from support.spark.spark_lab import SparkLab


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Laboratory:
    """One for all histories; it asks for Spark when the first history needs it."""

    def spark_lab() -> SparkLab:
        return request.getfixturevalue("spark_lab")

    return Laboratory(tmp_path_factory.mktemp("histories"), spark_lab)
