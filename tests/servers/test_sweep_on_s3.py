"""A sweep of storage and sink on a real S3 store, whose clock and listings count."""

from pathlib import Path

import pytest

from support.pipelines.sweeping import require_swept_anywhere, survey_of
from support.pipelines.workshop import Workshop
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]


@pytest.fixture
def url(versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket, which the environment of this process opens."""
    for name, value in versitygw.options.items():
        monkeypatch.setenv(name.upper() if name.startswith("aws_") else f"AWS_{name.upper()}", value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    versitygw.make_bucket("swept")
    return "s3://swept"


def test_a_bucket_is_swept(url: str, tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path)
    require_swept_anywhere(workshop, f"{url}/icefloe")
    # A checkpoint in a bucket that cannot be opened keeps its files.
    workshop.set(checkpoint=f"{url}/checkpoint", storage=f"{url}/second", sink={"type": "files", "path": f"{url}/out"})
    workshop.open().run_route().commit()
    marker = next(
        each.key for each in workshop.session().open_storage(url).list("second/shuffle") if "_check" in each.key
    )
    store = workshop.session().open_storage(url)
    store.put(marker, store.get(marker).replace(b"s3://swept/checkpoint", b"s3://elsewhere/checkpoint"))
    survey = survey_of(f"{url}/second")
    assert (len(survey.problems), survey.leftovers) == (1, [])
