# The image of every service of docker-compose.yaml that runs icefloe, and the S3 store with a folder that its user owns.

FROM python:3.11-slim-bookworm AS icefloe

# Java's package links manual pages into a folder that slim images leave out.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

# The locks name every package and the hash of each file, so nothing is resolved here and nothing else is installed; they come
# before the code, which changes more often.
WORKDIR /opt/icefloe
COPY requirements.txt requirements.txt
COPY demo/requirements.txt demo/requirements.txt
COPY stack/requirements.txt stack/requirements.txt
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes \
        -r requirements.txt -r demo/requirements.txt -r stack/requirements.txt
ENV PATH=/opt/venv/bin:$PATH

COPY dags dags
COPY demo demo
COPY docs docs
COPY plugins plugins
COPY spark_jobs spark_jobs

# A new volume takes over the owner of the folder that it is mounted on.
RUN python -m compileall -q dags demo plugins spark_jobs \
    && useradd --uid 1000 --create-home icefloe \
    && mkdir -p /opt/airflow /var/lib/spark dags/pipelines \
    && chown icefloe: /opt/airflow /var/lib/spark
USER 1000:1000


FROM versity/versitygw:v1.8.0 AS object-store

RUN mkdir -p /var/lib/s3 && chown 1000:1000 /var/lib/s3
USER 1000:1000
