from icefloe.errors import ExpandedText


def test_text_of_the_pipeline_file_may_be_shown() -> None:
    expanded = ExpandedText(
        text="a = 'it''s' or b = TRUE or c = 'NAME'", written="a = 'it''s' or b = TRUE or c = '${NAME}'"
    )
    assert [expanded.says(part) for part in ("it's", "True", "NAME")] == [True, True, False]
    assert ExpandedText.of("a = 007", None).says("7.0")
