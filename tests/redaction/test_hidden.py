import base64
import html
import json
import re
import unicodedata
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.redaction import hidden
from icefloe.redaction.hidden import hide, hide_environment, quoted, redacted, redacted_foreign
from redaction.traces import traces_of
from redaction.wrong_configurations import SECRET

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps({"token": f"{SECRET}\n"}),
        quote_plus(SECRET),
        quote(SECRET),
        html.escape(f"{SECRET}\n"),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"a user:{SECRET} and more".encode()).decode(),
        quote_plus(base64.b64encode(f"id:{SECRET}".encode()).decode()),
    ],
)
def test_a_secret_is_hidden_in_whatever_form_it_comes_back(text: str) -> None:
    hide({"token": f"{SECRET}\n"})
    shown = redacted(f"you sent {text}!")
    assert traces_of(SECRET, shown) == []
    assert shown.startswith("you sent ")
    assert shown.endswith("!")


def test_words_that_a_user_needs_stay() -> None:
    hide({
        "type": "rest", "uri": "https://catalog.example.com:8181/api/catalog", "warehouse": "demo", "scope": "catalog",
        "s3.region": "eu-west-1", "s3.path-style-access": "true", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "token": "abc",
    })  # fmt: skip
    sentence = (
        "table demo.flights of catalog 'rest' at https://catalog.example.com:8181, eu-west-1, true, abc, PyArrowFileIO"
    )
    assert redacted(sentence) == sentence
    assert redacted_foreign("no warehouse demo, but demonstration at https://catalog.example.com:8181/") == (
        "no warehouse ***, but demonstration at https://catalog.example.com:8181/"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to postgresql://me:pw@db/x", "to postgresql://***@db/x"),
        ("GET https://c/v1?sig=abc HTTP", "GET https://c/v1?*** HTTP"),
        ("'Authorization': 'Bearer abcdefgh'", "'Authorization': ***"),
        ('input_value=\'{"a": "b\', input_type=str]', "input_value=***, input_type=str]"),
        ("the table has no column called token", "the table has no column called token"),
    ],
)
def test_text_that_looks_like_a_credential_is_hidden_in_foreign_texts(text: str, shown: str) -> None:
    assert redacted_foreign(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA0000:abc/def+ghi@bucket/x",
        "s3://AKIA0000:abc/def:ghi@bucket/x",
        "s3://AKIA0000:abc/def:ghi@bucket/x and s3://AKIA0000:abc/def@bucket/y",
    ],
)
def test_a_password_with_slashes_is_one(text: str) -> None:
    assert re.search("AKIA|abc|def|ghi", redacted(text)) is None


@pytest.mark.parametrize(
    "url", ["hdfs://name:8020/day/a@b", "https://c.example.com/a:b@c", "https://c.example.com:443"]
)
def test_a_port_is_no_password(url: str) -> None:
    assert redacted(f"at {url}") == redacted_foreign(f"at {url}") == f"at {url}"


def test_a_query_is_hidden_up_to_the_end_of_its_clause() -> None:
    assert redacted_foreign("...https://c/v1?sig=a:b: 401, https://c/?. (s3://x?y=1), x?y") == (
        "...https://c/v1?***: 401, https://c/?. (s3://x?***), x?y"
    )


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        ("", "a"), ("", "://"), ("", "://:"), ("", "s3://"), ("", "://?:"), ("", "token="), ("", "token='"),
        ("", "bearer "), ("", "input_value="), ("", "+"), ("s3://", ":"), ("s3://x?", ":"), ("s3://x?", "a"),
        ("s3://x:", ":/"), ("s3://x:", "a"),
    ],
)  # fmt: skip
def test_a_text_of_a_megabyte_takes_no_more_time_than_its_length(start: str, piece: str) -> None:
    hide({"token": SECRET})
    encoded = base64.b64encode(SECRET.encode()).decode()
    text = f"{start}{piece * (1_000_000 // len(piece))}" + f" {encoded} x"
    assert traces_of(SECRET, redacted_foreign(text)[-100:]) == []


def test_of_many_values_only_those_that_a_text_may_hold_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_HIDDEN", hidden._Hidden())
    for number in range(1_000):
        hide({"token": f"{number:04}-{SECRET[::-1]}-{number}"})
    text = "words of a table such as 2024-02-29 and 17:30:00 " * 1_000
    assert len(hidden._HIDDEN.forms_for(text, only_secrets=True)) < 40
    shown = redacted(f"{text}0907-{SECRET[::-1]}-907 {text}")
    assert shown == f"{text}*** {text}"


def test_a_short_secret_is_hidden_as_a_word_of_its_own() -> None:
    hide({"secret-access-key": "test"})
    assert redacted("latest.yaml of test_x is no contest") == "latest.yaml of test_x is no contest"
    assert redacted("sent test, 'test', \ntest, %20test%20 and =test&") == "sent ***, '***', \n***, %20***%20 and =***&"
    hide({"password": "+abc%"})
    assert redacted("x+abc%y") == "x***y"


def test_variables_of_catalogs_and_stores_are_hidden() -> None:
    hide_environment(
        {"AWS_SESSION_TOKEN": "s3ss10n", "PYICEBERG_CATALOG__LAB__S3__SECRET_ACCESS_KEY": "k3yk3y", "HOME": "/home/me"}
    )
    assert redacted("s3ss10n k3yk3y /home/me") == "*** *** /home/me"


def test_of_the_variables_of_a_vendor_only_secrets_are_hidden() -> None:
    hide_environment({
        "AWS_DEFAULT_OUTPUT": "table", "AWS_PROFILE": "analytics-team", "AWS_ACCESS_KEY_ID": "AKIA0000EXAMPLE",
        "AZURE_STORAGE_ACCOUNT_NAME": "lakehouse", "AZURE_STORAGE_SAS_TOKEN": "s1gs1gs1g",
        "AWS_ENDPOINT_URL": "http://me:pr0xypw@minio:9000/s3?x-token=qu3ryqu3ry",
    })  # fmt: skip
    said = "table analytics-team lakehouse minio:9000/s3"
    assert redacted_foreign(said) == said
    assert redacted_foreign("AKIA0000EXAMPLE s1gs1gs1g pr0xypw qu3ryqu3ry") == "*** *** *** ***"


def test_no_more_is_kept_than_the_newest_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_HIDDEN", hidden._Hidden())
    monkeypatch.setattr(hidden, "_MOST_VALUES", 4)
    for number in range(7):
        hide({"token": f"issued-{number}-x"})
        hide({"token": "the-first-one"})
        assert redacted(f"issued-{number}-x the-first-one") == "*** ***"
    assert redacted("issued-0-x issued-6-x") == "issued-0-x ***"
    assert "issued-0-x" not in str(hidden._HIDDEN._starts)


UNSEEN = [
    *map(chr, range(32)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e",
]
UNSEEN += [*"\u2060\u2066\u2069\ufeff\xad\u180e\u034f\u115f\u3164\ufe0f\ud800\U000e0041\U000e0101"]


@pytest.mark.parametrize("character", UNSEEN)
@pytest.mark.parametrize("around", ["a{}b", "{}", "שלום{}עולם", "あ{}{}い", "\u202e{}"])
def test_a_character_that_nobody_sees_is_an_escape(character: str, around: str) -> None:
    assert character not in quoted(around.format(character, character))
    assert character in "\n\t" or character not in redacted_foreign(around.format(character, character))


@given(st.text(max_size=600))
def test_a_quoted_line_is_one_line_and_stays_as_it_is(text: str) -> None:
    line = quoted(text)
    assert len(line.splitlines()) <= 1
    assert not {unicodedata.category(each) for each in line} & {"Cc", "Cs", "Zl", "Zp"}
    assert {each for each in line if unicodedata.bidirectional(each) in BIDI} == set()
    assert all(len(word) <= 200 for word in line.split())
    assert quoted(line) == line
    assert quoted(text, cuts=False).isprintable() or any(not each.isprintable() for each in text)


@pytest.mark.parametrize(
    "name",
    [
        "flüge",
        "Ärger_Straße",
        "航班",
        "שלום עולם",
        "پرواز",
        "हिन्दी",
        "🛫",
        "👨‍👩‍👧",
        "👨🏽‍🚀",
        "❤️",
        "☎︎",
        "e\u0301",
        "nbsp\xa0",
    ],
)
def test_names_in_any_language_and_emoji_stay_readable(name: str) -> None:
    assert quoted(f"no column '{name}'") == redacted_foreign(f"no column '{name}'") == f"no column '{name}'"


VALUES = st.text("abc", min_size=4, max_size=9)


@given(st.lists(VALUES, max_size=9), st.text("abc", max_size=30))
def test_no_value_is_missed_whose_text_occurs(values: list[str], text: str) -> None:
    held = hidden._Hidden()
    held.add(hidden.HiddenValue(value, is_secret=True) for value in values)
    found = {form for forms in held.forms_for(text, only_secrets=True) for form in forms.whole}
    assert {value for value in values if value in text} <= found <= set(values)
