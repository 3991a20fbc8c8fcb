"""The suite passes over sinks that keep the contract; test_broken_sinks shows that it fails over others."""

from testing.suites import IndexSuite, LogSuite, WholeBatchSuite


class TestIndex(IndexSuite):
    pass


class TestLog(LogSuite):
    pass


class TestWholeBatch(WholeBatchSuite):
    pass
