"""Mutations of the guards of settings: pipeline files, units, identifier columns, and variables of a process."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["SETTINGS"]

SETTINGS: Final = (
    Mutation(
        name="a link leads to files of others",
        path="iceberg/catalog/file_places.py",
        before="os.path.realpath(f",
        after="str(f",
        suite=("tests/iceberg/catalog/test_file_places.py",),
    ),
    Mutation(
        name="a link in place of a table's folder is followed",
        path="iceberg/catalog/file_places.py",
        before="yield replace(claimed, unlinked=1)",
        after="yield replace(claimed, unlinked=0)",
        suite=("tests/iceberg/catalog/test_file_places.py",),
    ),
    Mutation(
        name="a folder that became a link after the check is followed",
        path="iceberg/catalog/confined_io.py",
        before=" | os.O_DIRECTORY | os.O_NOFOLLOW",
        after=" | os.O_DIRECTORY",
        suite=("tests/iceberg/catalog/test_confined_io.py",),
    ),
    Mutation(
        name="a place on a disk is one that credentials open",
        path="pipeline/model.py",
        before='return all(str(place or "file:").startswith("file:")',
        after='return not any(str(place or "file:").startswith("file:")',
        suite=("tests/pipeline/test_model.py",),
    ),
    Mutation(
        name="a folder whose name goes on after a question mark is the one before it",
        path="iceberg/catalog/file_places.py",
        before="path=os.path.normpath(path)",
        after="path=os.path.normpath(url.path)",
        suite=("tests/iceberg/catalog/test_file_places.py",),
    ),
    Mutation(
        name="a path is asked for without what follows a number sign",
        path="iceberg/catalog/file_io.py",
        before='else f"{authority}{whole}"',
        after="else path",
        suite=("tests/iceberg/catalog/test_file_io.py",),
    ),
    Mutation(
        name="a server may leave out the history of a table",
        path="iceberg/catalog/bounded_rest.py",
        before='        self.properties[SNAPSHOT_LOADING_MODE] = "all"\n',
        after="",
        suite=("tests/iceberg/catalog/test_bounded_rest.py",),
    ),
    Mutation(
        name="a property of a catalog is a number for PyIceberg",
        path="iceberg/catalog/catalog_properties.py",
        before="if isinstance(value, bool | int | float)}",
        after="if isinstance(value, bool)}",
        suite=("tests/iceberg/catalog/test_catalog_properties.py",),
    ),
    Mutation(
        name="a value of the environment is shown in any key",
        path="pipeline/environment.py",
        before='    hide({"secret": found})\n',
        after="",
        suite=("tests/redaction/test_environment_values.py",),
    ),
    Mutation(
        name="an address of a sink may hold anything after its host",
        path="pipeline/url.py",
        before="(?P<path>/[\\w.~%/+-]*)?",
        after="(?P<path>.*)",
        suite=("tests/redaction/test_environment_values.py",),
    ),
    Mutation(
        name="credentials are handed over in one variable, however long",
        path="batch/long_variables.py",
        before="    if len(text) <= _MOST_CHARACTERS:",
        after="    if text:",
        suite=("tests/batch/test_credentials.py",),
    ),
    Mutation(
        name="a plan is made for a driver that cannot be given what opens the table",
        path="engines/spark/job_limits.py",
        before="    refuse_large_environment(driver_environment(environ, handed, master=master), handed)\n",
        after="",
        suite=("tests/engines/spark/test_submit.py",),
    ),
    Mutation(
        name="a pipeline file may hold what errors hide",
        path="pipeline/secret.py",
        before="return names_secret(key) and ",
        after="return False and ",
        suite=("tests/pipeline/test_secret.py",),
    ),
    Mutation(
        name="a command takes the file with the stem, whichever other file has that name",
        path="pipeline/pipeline_file.py",
        before="match [path for path in names if text in names[path]]:",
        after="match [path for path in names if text == path.stem] or [path for path in names if text in names[path]]:",
        suite=("tests/pipeline/test_pipeline_file.py",),
    ),
    Mutation(
        name="a duration may be longer than any calendar",
        path="units.py",
        before="if seconds >= _TOO_MANY_DAYS * 86400:",
        after="if False:",
        suite=("tests/test_units.py",),
    ),
    Mutation(
        name="the word false switches on",
        path="units.py",
        before="return word in _ON if otherwise is False else word not in _OFF",
        after="return bool(value)",
        suite=("tests/sinks/opensearch/test_opensearch_options.py",),
    ),
    Mutation(
        name="an identity moves to another column of its name",
        path="batch/open/identity_policy.py",
        before="        _refuse_other_columns(recorded, schema, before)\n",
        after="",
        suite=("tests/batch/open/test_identity_policy.py",),
    ),
    Mutation(
        name="a filter moves to another column of its name",
        path="batch/open/filter_policy.py",
        before="        _refuse_other_columns(before, found, pipeline)\n",
        after="",
        suite=("tests/batch/open/test_filter_policy.py",),
    ),
    Mutation(
        name="a filter forgets its columns once the snapshot of then has expired",
        path="batch/open/filter_policy.py",
        before="_recorded(session, view.cursor.batch_number) or ",
        after="",
        suite=("tests/batch/open/test_filter_policy.py",),
    ),
    Mutation(
        name="numbers that a float rounds are compared otherwise without a word",
        path="iceberg/filters/row_filter.py",
        before="not math.isinf(near) and near != number",
        after="False",
        suite=("tests/batch/open/test_filter_policy.py",),
    ),
)
