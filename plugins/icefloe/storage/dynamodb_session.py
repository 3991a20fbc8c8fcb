"""Botocore's client of a table: its account, its region and its times."""

import os
from functools import cache
from typing import Any, Final

from icefloe.errors import TerminalError, TransientError
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.aws_faults import may_pass
from icefloe.storage.clients import LONGEST_CONNECT_SECONDS
from icefloe.storage.dynamodb_access import DynamodbAccess

_CONNECTIONS: Final = 16


def botocore_client(access: DynamodbAccess, silence_seconds: float) -> Any:
    """A client that sends each request once.

    Args:
        access: to the table.
        silence_seconds: until a request that is not answered is given up.

    Raises:
        TerminalError: botocore is not installed, or refuses the settings.
        TransientError: the credentials of this machine cannot be fetched now.
    """
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ModuleNotFoundError:
        raise TerminalError(
            "coordination in DynamoDB needs the package botocore, which is not installed here; install "
            "icefloe[dynamodb] wherever tasks run",
        ) from None
    config = Config(
        connect_timeout=min(LONGEST_CONNECT_SECONDS, silence_seconds),
        read_timeout=silence_seconds,
        max_pool_connections=_CONNECTIONS,
        # AWS_ENDPOINT_URL is the object store's: with a store of one's own, the table is Amazon's all the same.
        ignore_configured_endpoint_urls=True,
        # Ours are bounded by time, as the other stores' are, and know which requests may come twice.
        retries={"total_max_attempts": 1},
    )
    region = access.region or next(filter(None, map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))), None)
    session = get_session()
    _share_models(session)
    _set_keys(session, access)
    try:
        if access.role_arn:
            session = _assuming(session, access, region)
        return session.create_client(
            "dynamodb", region_name=region, endpoint_url=access.endpoint or None, config=config
        )
    except (BotoCoreError, ValueError) as cause:
        sentence = f"cannot open {access.url}: {redacted_foreign(str(cause)).strip()}"
        if may_pass(cause):
            raise_outgoing(TransientError(
                f"{sentence}; try again, and check the source of this machine's credentials if it goes on",
                url=access.url,
            ))  # fmt: skip
        raise_outgoing(TerminalError(
            f"{sentence}; set dynamodb_region and dynamodb_endpoint in the options of the store, or AWS's own "
            "variables", url=access.url,
        ))  # fmt: skip


def _share_models(session: Any) -> None:
    """Lets all sessions of the process read botocore's models once: they cost 50 ms for each client."""
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))


@cache
def _loader(search_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(search_path)


def _set_keys(session: Any, access: DynamodbAccess) -> None:
    if access.access_key_id:
        session.set_credentials(access.access_key_id, access.secret_access_key, access.session_token or None)


def _assuming(source: Any, access: DynamodbAccess, region: str | None) -> Any:
    """A session whose clients assume a role, again whenever its credentials expire.

    Args:
        source: session with the keys that may assume it.
        access: names the role.
        region: of the token service; None: of the machine's configuration.
    """
    from botocore.credentials import (
        AssumeRoleCredentialFetcher,
        CredentialProvider,
        CredentialResolver,
        DeferredRefreshableCredentials,
    )
    from botocore.exceptions import NoCredentialsError
    from botocore.session import get_session

    keys = source.get_credentials()
    if keys is None:
        raise NoCredentialsError
    given = {"RoleSessionName": "icefloe", **({"ExternalId": access.external_id} if access.external_id else {})}
    fetcher = AssumeRoleCredentialFetcher(
        lambda name, **options: source.create_client(name, **{"region_name": region, **options}),
        keys,
        access.role_arn,
        extra_args=given,
    )

    class Assumed(CredentialProvider):  # type: ignore[misc]  # botocore's classes are Any here
        METHOD = "icefloe-assumes-a-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    # Another session: one that has keys of its own never asks its providers.
    session = get_session()
    _share_models(session)
    session.register_component("credential_provider", CredentialResolver([Assumed()]))
    return session
