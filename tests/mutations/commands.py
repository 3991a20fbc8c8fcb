"""Mutations of the commands that look: keys of rows, values that are shown, readers that go away, awaited tables."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["COMMANDS"]

_KEYS: Final = ("tests/cli/test_row_key.py",)
_PIPES: Final = ("tests/cli/test_command_line.py",)
_WAITING: Final = ("tests/cli/test_status.py",)

COMMANDS: Final = (
    Mutation(
        name="a line break in a name begins a line of its own in an error",
        path="redaction/hidden.py",
        before="seen = _UNSEEN.sub(_escaped, redacted(line))",
        after='seen = "\\n".join(_UNSEEN.sub(_escaped, redacted(each)) for each in line.split("\\n"))',
        suite=("tests/test_errors.py",),
    ),
    Mutation(
        name="a line break in a name begins a record of its own in a log",
        path="redacted_output.py",
        before='hidden = hide(message) if is_theirs else hide(message).replace("\\n", "\\\\n")',
        after="hidden = hide(message)",
        suite=("tests/test_redacted_output.py",),
    ),
    Mutation(
        name="a cell of a table moves the cursor",
        path="cli/screen.py",
        before="Text(quoted(text, cuts=False))",
        after="Text(text)",
        suite=("tests/cli/test_screen.py",),
    ),
    Mutation(
        name="trace writes the name of a column into its filter without quotes",
        path="cli/row_key.py",
        before='condition = f"{_quoted(name)} {_comparison(value)}"',
        after='condition = f"{name} {_comparison(value)}"',
        suite=_KEYS,
    ),
    Mutation(
        name="trace writes floats into its filter as Python shows them",
        path="cli/row_key.py",
        before='return f"{Decimal(repr(value)):f}"',
        after="return repr(value)",
        suite=_KEYS,
    ),
    Mutation(
        name="trace looks for infinity as for the largest number",
        path="cli/row_key.py",
        before='return f"> {_digits(_LARGEST)}" if value > 0',
        after='return f">= {_digits(_LARGEST)}" if value > 0',
        suite=_KEYS,
    ),
    Mutation(
        name="trace looks into a column whose name its filter changed",
        path="cli/row_key.py",
        before="said.keys() != {name} or ",
        after="",
        suite=_KEYS,
    ),
    Mutation(
        name="trace looks for text that its filter changed",
        path="cli/row_key.py",
        before=" or (isinstance(value, str) and said[name] != [value])",
        after="",
        suite=_KEYS,
    ),
    Mutation(
        name="trace prints numbers that JSON does not have",
        path="cli/trace.py",
        before="if isinstance(value, float) and not math.isfinite(value):",
        after="if False:",
        suite=("tests/cli/test_trace.py",),
    ),
    Mutation(
        name="a row with nanoseconds cannot be shown without pandas",
        path="changes/plain_rows.py",
        before="= rows.to_pylist()\n    except (OverflowError, ValueError):",
        after="= rows.to_pylist()\n    except OverflowError:",
        suite=("tests/changes/test_plain_rows.py",),
    ),
    Mutation(
        name="text that cannot be decoded is shown as a time",
        path="changes/plain_rows.py",
        before="if not pa.types.is_temporal(value.type):",
        after="if False:",
        suite=("tests/changes/test_plain_rows.py",),
    ),
    Mutation(
        name="a reader that goes away is a fault of icefloe",
        path="cli/command_line.py",
        before="    except ReaderGoneError:\n        raise\n",
        after="",
        suite=_PIPES,
    ),
    Mutation(
        name="a command whose reader went away has a code of Rich",
        path="cli/screen.py",
        before="except (BrokenPipeError, SystemExit) as cause:",
        after="except BrokenPipeError as cause:",
        suite=_PIPES,
    ),
    Mutation(
        name="the rest for a reader that went away is written as the process ends",
        path="cli/command_line.py",
        before="        os.dup2(nobody.fileno(), stream.fileno())\n",
        after="        pass\n",
        suite=_PIPES,
    ),
    Mutation(
        name="status fails while a pipeline waits for its table",
        path="cli/status.py",
        before="        if pipeline.wait_for_table:\n            return session, error.sentence\n",
        after="",
        suite=_WAITING,
    ),
    Mutation(
        name="a branch that a pipeline waits for is trouble",
        path="cli/status.py",
        before="return None if is_awaited else error.sentence",
        after="return error.sentence",
        suite=_WAITING,
    ),
    Mutation(
        name="plan fails while a pipeline waits for its table",
        path="cli/plan.py",
        before="        if pipeline.wait_for_table:\n",
        after="        if False:\n",
        suite=("tests/cli/test_plan.py",),
    ),
)
