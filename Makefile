# Everything a developer runs; `make` alone lists it. Needs Python 3.11 to 3.13 and make, nothing else.

.DEFAULT_GOAL := help
.PHONY: help venv demo env secrets test extended quick check mutants soak schedules bench screenshots lock audit clean
.DELETE_ON_ERROR:

VENV := .venv
LIBRARY := plugins/icefloe
TYPED := $(LIBRARY) make demo tests benchmarks

# pyspark is built from 450 MB of source, and uv's cache would grow by 1.9 GB with every install, in the home folder.
UV := $(VENV)/bin/python -m uv --no-cache
# Bytecode is compiled once here, not again by every Spark worker and Airflow task of a machine that writes none.
INSTALL := $(UV) pip install --python $(VENV)/bin/python --compile-bytecode --no-deps
# Every file that is installed has the SHA-256 that its lock names.
INSTALL_LOCKED := $(INSTALL) --require-hashes
COMPILE := $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock'

# Many tests wait for another process most of the time: more of them run at once than there are cores.
TESTS_AT_ONCE ?= 4
PYTEST = $(VENV)/bin/python -m pytest -n $(TESTS_AT_ONCE) --dist loadscope

# What Spark's own scripts look at: this environment's Python and no other Spark than ours.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PYSPARK_PYTHON := $(CURDIR)/$(VENV)/bin/python
export SPARK_LOCAL_IP := 127.0.0.1
# Where bytecode may not be written, each process of a test would compile the library again.
unexport PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE SPARK_HOME SPARK_CONF_DIR VIRTUAL_ENV

SIMULATION = PYTHONPATH=plugins:tests $(VENV)/bin/python -m simulation.soak

# Finds Java 17 to 21, or installs one into the environment.
WITH_JAVA = JAVA_HOME="$$($(VENV)/bin/python -m make.java_home)" && export JAVA_HOME &&

# The JVMs that tests start by spark-submit share an archive of Spark's classes; it is made once, in some 15 seconds.
WITH_CLASSES = SPARK_SUBMIT_OPTS="$$($(VENV)/bin/python -m make.class_archive)" && export SPARK_SUBMIT_OPTS &&

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.icefloe  ## .venv with everything that icefloe and its demo run on

# SINK=opensearch or SINK=kafka starts that server, whose jars are fetched into .cache (60 MB), and delivers to it.
# SINK=mirror keeps a table in another catalog equal, SINK=history every version of each row.
demo: venv  ## load real flights into an Iceberg table and run the DAG for four batches; SINK=opensearch, SINK=kafka, SINK=mirror, SINK=history
	@$(WITH_JAVA) $(VENV)/bin/python -m demo.run $(SINK:%=--sink %)

# FURTHER packages that the workers need, such as adlfs, must be installed in .venv too.
env: venv  ## the archive that Spark's workers run, in dist/
	@$(VENV)/bin/python -m make.worker_environment dist $(FURTHER)

secrets:  ## new secrets for docker-compose.yaml in .env, if there is none
	@"$$(sh make/find_python.sh)" -m make.make_env

test: check  ## the tests that every change must pass, `make check` first
	@$(WITH_JAVA) $(WITH_CLASSES) $(PYTEST) -m "not extended" tests $(LIBRARY) make

extended: $(VENV)/.developer  ## the tests that a release must pass in addition: more histories, schedules and servers
	@$(WITH_JAVA) $(WITH_CLASSES) $(PYTEST) -m extended tests

quick: $(VENV)/.developer  ## the tests that start no JVM, no server and no process that waits
	@$(PYTEST) -n auto -m "not (spark or servers or daemons or airflow or slow or extended)" tests $(LIBRARY) make

check: $(VENV)/.developer  ## formatting, English, lint, types and the direction of imports
	$(VENV)/bin/python -m make.locks
	$(VENV)/bin/python -m make.english
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/oxlint --quiet $(LIBRARY)/orchestration/page/static
	$(VENV)/bin/mypy $(TYPED)
	$(VENV)/bin/lint-imports --no-logo

mutants: $(VENV)/.developer  ## break the library in one place after another and see that the tests notice
	@$(WITH_JAVA) PYTHONPATH=tests $(VENV)/bin/python -m mutations.run

# COUNT histories for each kind of writer, from SEED on; SOAK takes further options, such as "--writers java --thorough".
soak: $(VENV)/.developer  ## thousands of random histories, 100,000 schedules, and 20,000 damages of each kind of file
	@$(WITH_JAVA) PYTHONPATH=tests $(VENV)/bin/python -m histories.soak $(COUNT:%=--count %) $(SEED:%=--seed %) $(SOAK)
	@$(SIMULATION) $(SCHEDULES:%=--schedules %) $(SEED:%=--seed %)
	@ICEFLOE_SEEDS=0:1000 $(PYTEST) tests/sinks/iceberg/test_histories.py tests/servers/test_postgres_histories.py
	@$(WITH_JAVA) ICEFLOE_SEEDS=0:40 $(PYTEST) tests/spark/test_merged_histories.py
	@ICEFLOE_FUZZ_EXAMPLES=20000 $(VENV)/bin/python -m pytest -q tests/fuzz

# Needs no Java: SCHEDULES of them from SEED on, or the one that REPLAY names by its seed.
schedules: $(VENV)/.developer  ## 100,000 simulated schedules of runs, zombies, backfills and sweeps over one store
	@$(SIMULATION) $(SCHEDULES:%=--schedules %) $(SEED:%=--seed %) $(REPLAY:%=--replay %)

bench: $(VENV)/.developer  ## speed on 2 million rows rewritten by Spark, and on as many with delete files
	@$(WITH_JAVA) PYTHONPATH=tests $(VENV)/bin/python -m benchmarks.run
	@$(WITH_JAVA) PYTHONPATH=tests $(VENV)/bin/python -m benchmarks.merge_on_read --spark

screenshots: $(VENV)/.developer  ## pictures of the page in .screenshots/, by Chromium from real runs; those of docs/ too
	@PYTHONPATH=plugins:tests:. $(VENV)/bin/python -m page.screenshots .screenshots

lock: $(VENV)/.uv  ## resolve the exact versions again, with the hashes of their files
	$(COMPILE) make/uv.in --output-file make/uv.txt
	$(COMPILE) make/java.in --output-file make/java.txt
	$(COMPILE) requirements.in --output-file requirements.txt
	$(COMPILE) demo/requirements.in --output-file demo/requirements.txt
	$(COMPILE) stack/requirements.in --output-file stack/requirements.txt
	$(COMPILE) tests/docs/dbt.in --output-file tests/docs/dbt.txt
	$(COMPILE) requirements-dev.in --output-file requirements-dev.txt

audit:  ## look up known vulnerabilities of every version that the locks name, at osv.dev
	@"$$(sh make/find_python.sh)" -m make.audit

clean:  ## remove the environment, the demo's data and all caches
	rm -rf $(VENV) .demo .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each layer of the environment; the Python itself is the first, so that a dangling link is made again.
$(VENV)/bin/python:
	@python="$$(sh make/find_python.sh)" && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)

$(VENV)/.uv: $(VENV)/bin/python make/uv.txt Makefile
	@echo "Installing uv"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r make/uv.txt
	@touch $@

$(VENV)/.runtime: $(VENV)/.uv requirements.txt demo/requirements.txt
	@echo "Installing Airflow, Spark and PyIceberg: about 1.2 GB, a minute or two"
	@$(INSTALL_LOCKED) -r requirements.txt -r demo/requirements.txt
	@touch $@

$(VENV)/.icefloe: $(VENV)/.runtime pyproject.toml
	@$(INSTALL) --offline --editable .
	@touch $@

$(VENV)/.developer: $(VENV)/.icefloe requirements-dev.txt stack/requirements.txt
	@echo "Installing the developer tools"
	@$(INSTALL_LOCKED) -r requirements-dev.txt -r stack/requirements.txt
	@touch $@
