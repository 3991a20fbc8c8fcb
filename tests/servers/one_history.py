"""The random cases of a sink whose server is real: one of them, for a release."""

import pytest

from icefloe.testing.interruption_cases import RandomCases
from support.tiers import extended

__all__ = ["OneHistory"]


class OneHistory(RandomCases):
    """Random cases; over servers in memory `make test` tries all of them."""

    @pytest.mark.parametrize("seed", [extended(0)])
    def test_a_random_history_arrives(self, seed: int) -> None:
        """One history."""
        super().test_a_random_history_arrives(seed)
