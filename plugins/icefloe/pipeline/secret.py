"""Keys that look like secrets: a pipeline file is read by many, so they have no place in it."""

import re
from typing import Final

from icefloe.redaction.secret_values import names_secret

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "token", "credential", "credentials")
_SECRET_WORDS: Final = frozenset(
    {"pwd", "pass", "sas", "authorization", "apikey", "accesskey", "secretkey", "privatekey", "accountkey"}
)
_SECRET_PAIRS: Final = frozenset(
    {
        ("access", "key"),
        ("account", "key"),
        ("api", "key"),
        ("connection", "string"),
        ("encryption", "key"),
        ("private", "key"),
        ("sasl", "username"),
        ("secret", "key"),
    }
)
# A word after the secret word turns the key into something else: `aws.credentials.provider` is a class.
_HARMLESS: Final = re.compile(
    "algorithm|alias|at|bit|class|enabled|endpoint|file|impl|interval|issuer|length|path|providers?|ref|refresh|renewal|"
    "timeout|ttl|type|ur[il]"
)
# A key of rows, in the options of a sink that somebody else wrote; names of secrets in Kubernetes.
_NO_SECRET: Final = re.compile(
    r"((.+[._-])?(primary|foreign|unique|partition|merge|sort|message|row)[._-])?key|spark\.kubernetes\..*([sS]ecrets(\..*)?|Name)"
)


def looks_secret(key: str) -> bool:
    """True if the value of a key is probably a secret, judged by the key alone. Errors hide the values of these keys.

    >>> [looks_secret(key) for key in ("s3.secret-access-key", "spark.ssl.keyPassword", "token", "client.region")]
    [True, True, True, False]
    >>> [looks_secret(key) for key in ("token-refresh-enabled", "spark.hadoop.fs.s3a.aws.credentials.provider")]
    [False, False]
    """
    words = [word.lower() for word in _WORD.findall(key)]
    last = max((position for position in range(len(words)) if _is_secret(words, position)), default=None)
    if last is not None:
        return not any(_HARMLESS.fullmatch(word) for word in words[last + 1 :])
    return names_secret(key) and _NO_SECRET.fullmatch(key) is None


def _is_secret(words: list[str], position: int) -> bool:
    word = words[position]
    pair = (words[position - 1], word) if position else None
    return word.endswith(_SECRET_ENDINGS) or word in _SECRET_WORDS or pair in _SECRET_PAIRS
