"""A broker that asks who its clients are, and what they may do."""

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from demo.servers.free_port import free_port
from demo.servers.kafka import Kafka
from support.servers.private_authority import PrivateAuthority

__all__ = ["CLIENT", "USER", "Right", "SecuredKafka"]

USER: Final = "icefloe-writer"
CLIENT: Final = "A client"
"""The holder of the client's certificate, whose rights are those of ``User:CN=A client``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One right of a user on a resource."""

    operation: str
    resource: str
    name: str
    is_prefix: bool = False

    def binding(self, principal: str) -> AclBinding:
        pattern = ResourcePatternType.PREFIXED if self.is_prefix else ResourcePatternType.LITERAL
        return AclBinding(
            ResourceType[self.resource], self.name, pattern, principal, "*", AclOperation[self.operation],
            AclPermissionType.ALLOW,
        )  # fmt: skip


@dataclass(kw_only=True)
class SecuredKafka(Kafka):
    """A broker with a listener for each way in. Only the plain one, for the tests themselves, may do everything.

    Attributes:
        authority: signs the certificates of the broker and of its clients.
        password: of `USER`, for PLAIN and for SCRAM.
    """

    authority: PrivateAuthority
    password: str = field(default_factory=lambda: secrets.token_hex(12))
    sasl_port: int = field(default_factory=free_port)
    tls_port: int = field(default_factory=free_port)
    certificate_port: int = field(default_factory=free_port)

    def __enter__(self) -> "SecuredKafka":
        """Starts it and gives `USER` a password for SCRAM."""
        super().__enter__()
        upsertion = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), self.password.encode()
        )
        for done in self.admin.alter_user_scram_credentials([upsertion]).values():
            done.result()
        # The controller has it now; the broker, which asks for it, hears of it a moment later.
        while USER not in self.admin.describe_user_scram_credentials().result():
            pass
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it after its client, which would look for it as long as this object lives, and say so each second."""
        self.__dict__.pop("admin", None)
        super().__exit__(*_)

    @cached_property
    def admin(self) -> AdminClient:
        """A client that may do everything."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def grant(self, *rights: Right, principal: str = f"User:{USER}") -> None:
        """Gives rights, and waits until the broker knows them."""
        bindings = [right.binding(principal) for right in rights]
        for done in self.admin.create_acls(bindings).values():
            done.result()
        while not all(self._knows(each) for each in bindings):
            pass

    def revoke(self, *rights: Right, principal: str = f"User:{USER}") -> None:
        """Takes rights back, and waits until the broker knows them no more."""
        bindings = [right.binding(principal) for right in rights]
        for done in self.admin.delete_acls([_only(each) for each in bindings]).values():
            done.result()
        while any(self._knows(each) for each in bindings):
            pass

    def _knows(self, binding: AclBinding) -> bool:
        return bool(self.admin.describe_acls(_only(binding)).result())

    def ways_in(self) -> dict[str, dict[str, Any]]:
        """Settings of librdkafka for each way in, as the extra of a connection has them."""
        login = {"sasl.username": USER, "sasl.password": self.password}
        tls = {"ssl.ca.location": str(self.authority.bundle)}
        sasl = {"bootstrap.servers": f"127.0.0.1:{self.sasl_port}", "security.protocol": "SASL_PLAINTEXT", **login}
        certificate = str(self.authority.issue(holder=CLIENT))
        return {
            "PLAIN": {**sasl, "sasl.mechanism": "PLAIN"},
            "SCRAM": {**sasl, "sasl.mechanism": "SCRAM-SHA-512"},
            "TLS and SCRAM": {
                "bootstrap.servers": f"127.0.0.1:{self.tls_port}", "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512", **login, **tls,
            },
            "client certificate": {
                "bootstrap.servers": f"127.0.0.1:{self.certificate_port}", "security.protocol": "SSL",
                "ssl.certificate.location": certificate, "ssl.key.location": certificate, **tls,
            },
        }  # fmt: skip

    def _settings(self) -> dict[str, str]:
        listeners = {
            "PLAINTEXT": self.port, "SASL_PLAINTEXT": self.sasl_port, "SASL_SSL": self.tls_port,
            "SSL": self.certificate_port,
        }  # fmt: skip
        addresses = [f"{name}://127.0.0.1:{port}" for name, port in listeners.items()]
        modules = "org.apache.kafka.common.security"
        plain = f'{modules}.plain.PlainLoginModule required user_{USER}="{self.password}";'
        scram = f"{modules}.scram.ScramLoginModule required;"
        return super()._settings() | {
            "listeners": ",".join([*addresses, f"CONTROLLER://127.0.0.1:{self.controller_port}"]),
            "advertised.listeners": ",".join(addresses),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in listeners)]
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.bundle),
            # A topic that is missing must stay missing.
            "auto.create.topics.enable": "true",
        }


def _only(binding: AclBinding) -> AclBindingFilter:
    """A filter that finds this binding and no other."""
    return AclBindingFilter(
        binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
        binding.operation, binding.permission_type,
    )  # fmt: skip
