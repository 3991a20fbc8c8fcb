import pytest

from icefloe.pipeline.validation import looks_secret


@pytest.mark.parametrize(
    "key",
    ["password", "jdbc.password", "token", "credential", "s3.secret-access-key", "s3.access-key-id", "s3.session-token",
     "adls.account-key", "adls.connection-string", "adls.sas-token", "gcs.oauth2.token", "header.Authorization",
     "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword",
     "spark.authenticate.secret", "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
     "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
     "spark.executorEnv.PGPASSWORD", "api_key", "apiKey", "accessKey", "private-key",
     "header.Cookie", "header.X-Auth-Key", "header.X-Session-Id", "s3.sse-customer-key", "ssl.key.pem",
     "sasl.jaas.config", "sasl.username", "sasl.oauthbearer.config", "auth"],
)  # fmt: skip
def test_a_key_that_holds_a_secret_is_recognised(key):
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    ["uri", "name", "type", "warehouse", "s3.endpoint", "s3.region", "token-refresh-enabled",
     "gcs.oauth2.token-expires-at", "oauth2-server-uri", "spark.hadoop.fs.s3a.aws.credentials.provider",
     "spark.executor.cores", "spark.task.cpus",
     "spark.hadoop.security.credential.provider.path", "spark.kubernetes.driver.secretKeyRef.NAME",
     "spark.kubernetes.authenticate.driver.serviceAccountName", "spark.sql.shuffle.partitions", "key", "primary_key",
     "ssl.key.location", "ssl.ca.location", "sasl.oauthbearer.token.endpoint.url", "header.User-Agent",
     "header.x-goog-user-project", "header.Polaris-Realm", "spark.network.auth.rpcTimeout",
     "spark.security.credentials.renewalRatio", "spark.kubernetes.container.image.pullSecrets",
     "spark.kubernetes.driver.secrets.tls", "spark.sql.mapKeyDedupPolicy"],
)  # fmt: skip
def test_a_key_that_only_sounds_like_it_passes(key):
    assert not looks_secret(key)
