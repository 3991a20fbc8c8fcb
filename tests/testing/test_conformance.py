"""The suite passes over sinks that keep the contract; test_broken_sinks shows that it fails over others."""

from testing.suites import IndexSuite, LogSuite, TableSuite


class TestIndex(IndexSuite):
    pass


class TestLog(LogSuite):
    pass


class TestTable(TableSuite):
    pass
