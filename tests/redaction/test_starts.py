from hypothesis import given
from hypothesis import strategies as st

from icefloe.redaction.hidden import Starts

TEXTS = st.text("abc", min_size=4, max_size=9)
NAMED = st.dictionaries(st.sampled_from("xyz"), st.lists(TEXTS, max_size=3))


@given(NAMED, st.text("abc", max_size=30))
def test_no_name_is_missed_whose_text_occurs(named: dict[str, list[str]], text: str) -> None:
    starts = Starts()
    for name, texts in named.items():
        starts.add(name, texts)
    assert starts.names_in(text) == {name for name, texts in named.items() if any(each[:6] in text for each in texts)}


@given(NAMED, st.sampled_from("xyz"), st.text("abc", max_size=30))
def test_a_name_that_is_removed_leaves_the_others(named: dict[str, list[str]], gone: str, text: str) -> None:
    starts, others = Starts(), Starts()
    for name, texts in named.items():
        starts.add(name, texts)
        if name != gone:
            others.add(name, texts)
    starts.remove(gone, named.get(gone, []))
    assert starts.names_in(text) == others.names_in(text)
