# `make` alone lists what there is. Everything is set up in .venv; nothing is installed elsewhere
# except a Java runtime where there is none (see dev/java.py).

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# The first of these that is Python 3.11 or newer. `make PYTHON=/path/to/python` picks another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

# `make demo HEADLESS=1`: no waiting for Ctrl-C, an exit code instead.
HEADLESS ?=
# `make demo KAFKA=1`: with a fourth stream, from a Kafka broker.
KAFKA ?=
# `make bench ONLY=name`: that benchmark only; `make mutants ONLY=module`: that module only.
ONLY ?=
# `make test ARGS="-k ratio -x"`: further arguments for pytest; `-n0` runs all in one process.
ARGS ?=
# `make test-spark SPARK=3.5`: the Spark, in an environment of its own in .cache; `make venv
# BOUND='pyspark==4.1.*'`: releases that an environment is bound to.
SPARK ?= 3.5
# `make test-dagster DAGSTER=1.11`: likewise the Dagster.
DAGSTER ?= 1.11
BOUND ?=
# `make soak MINUTES=60 SEED=7`: how long each scenario repeats, and the seed of its kills.
MINUTES ?= 10
SEED ?= 1
# `make fault NAME=store-resets-after SEED=7`: the schedule that is played again; RATE=0.3: with that share
# of calls. `make faults SCHEDULES=100`: so many of each.
NAME ?=
RATE ?=
SCHEDULES ?= 530

# Tests, the demo and benchmarks start hundreds of Python processes, each of which would compile the
# library again where byte code is not kept.
unexport PYTHONDONTWRITEBYTECODE

# Several tests at a time, as they often wait. The quick ones begin (tests/scheduling.py).
# By `exec`, so that `make` is its parent, with which it ends (dev/runs.py).
PYTEST = exec $(PY) -m pytest -n auto --max-worker-restart=2
SLOWEST = --durations=25 --durations-min=5

# Spark finds Java through JAVA_HOME. Shell, so that it is looked up only where it is needed.
WITH_JAVA = JAVA_HOME="$$($(PY) -m dev.java)" && export JAVA_HOME

.DEFAULT_GOAL := help
.PHONY: help venv java demo dist screenshots test quick test-clusters test-spark test-dagster soak lint types bench mutants docs clean fault faults faults-real audit

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r n t; do \
		printf '  make %-13s %s\n' "$$n" "$$t"; done

venv: $(STAMP) ## set up .venv; VENV= and PYTHON= for others

# Again only when the dependencies change: the package itself is installed in place.
$(STAMP): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed, and none was found on the PATH." >&2; \
		echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python)," >&2; \
		echo "or name one: make $(or $(firstword $(MAKECMDGOALS)),demo) PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@command -v "$(PYTHON)" >/dev/null || { echo "PYTHON=$(PYTHON): there is no such program" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
		f"PYTHON=$(PYTHON) is Python {v[0]}.{v[1]}; 3.11 or newer is needed")'
	@"$(PYTHON)" -m dev.setup_venv $(VENV) $(if $(BOUND),'$(BOUND)')

java: $(STAMP) ## see to a Java runtime for Spark; says where it is
	@$(PY) -m dev.java

demo: $(STAMP) ## three streams that scale under a load, with the Dagster UI, until Ctrl-C; HEADLESS=1 ends by itself, KAFKA=1 has a fourth
	@exec $(VENV)/bin/sparkscale demo $(if $(filter-out 0 no false,$(HEADLESS)),--headless) \
		$(if $(filter-out 0 no false,$(KAFKA)),--kafka)

# Elsewhere than the demo's own .demo: the pictures show where logs are.
screenshots: $(STAMP) ## the README's pictures anew, of the demo in a browser, in four to eight minutes
	@$(WITH_JAVA) && exec $(PY) -m demo.run --pictures docs --state /tmp/streams

test: $(STAMP) ## set up and run the tests: all that decides, one story of each capability; ARGS="-k ratio -x" for pytest
	@$(WITH_JAVA) && $(PYTEST) -m "not clusters" $(SLOWEST) $(ARGS)

quick: $(STAMP) ## the tests that need no Spark, no Java and no browser; ARGS="tests/watch -x"
	@$(PYTEST) -m "not spark and not browser and not clusters" $(ARGS)

test-clusters: $(STAMP) ## the tests of Kubernetes, YARN, HDFS and Standalone, and stories told again; ARGS as above
	@$(if $(ARGS)$(SPARKSCALE_TEST_KUBECONFIG),,$(PY) -m dev.kubernetes.building &&) $(WITH_JAVA) && \
		$(PYTEST) -m clusters $(SLOWEST) $(ARGS)

# All that another release of Spark may do otherwise: a stream's life, the stories of state, receivers
# and limits, the contract of a cluster, the driver. No archive of class data is made for it
# (tests/short_lives.py).
ON_SPARK = tests/e2e/test_faults.py tests/e2e/test_state.py tests/e2e/test_receivers.py \
	tests/e2e/test_retune.py tests/e2e/soak_standalone_rest.py tests/clusters/test_local.py \
	tests/clusters/test_standalone.py tests/clusters/test_standalone_rest.py \
	tests/driver tests/sources/kinesis/test_any_spark.py tests/sources/kinesis/test_dstream.py \
	-m spark -k "not kinesalite"

test-spark: ## the tests of Spark itself on another release, SPARK=3.5; ARGS for pytest in place of which tests
	@export JDK_JAVA_OPTIONS="-Xshare:auto $$JDK_JAVA_OPTIONS" TESTS_WITHOUT_CLASS_DATA=1; \
		exec $(MAKE) --no-print-directory test VENV=.cache/spark-$(SPARK) BOUND='pyspark==$(SPARK).*' ARGS='$(or $(ARGS),$(ON_SPARK))'

# All that another release of Dagster may do otherwise: its instance, runs, sensors, checks, and where
# the command line finds them.
ON_DAGSTER = tests/lifecycle tests/watch/test_sensor*.py tests/watch/test_runs.py \
	tests/watch/test_queued_runs.py tests/watch/test_alert_sensor.py tests/watch/test_fleet_events.py \
	tests/watch/test_shards*.py tests/watch/test_spills.py tests/watch/test_pace.py \
	tests/cli/test_changes.py tests/cli/test_status.py tests/cli/test_locations.py \
	tests/cli/test_doctor.py tests/state/test_schedules.py tests/backpressure/test_schedules.py \
	tests/components tests/declare/test_calendar.py tests/test_definitions.py tests/test_private_dagster.py tests/test_health_by_hand.py \
	tests/test_reference_location.py tests/advice/test_job.py

test-dagster: ## the tests of Dagster itself on another release, DAGSTER=1.11; ARGS for pytest in place of which tests
	@exec $(MAKE) --no-print-directory quick VENV=.cache/dagster-$(DAGSTER) BOUND='dagster==$(DAGSTER).*' \
		ARGS='$(or $(ARGS),$(ON_DAGSTER))'

soak: $(STAMP) ## repeat kills and long scenarios; MINUTES=60 for how long, SEED=7 for other moments
	@$(WITH_JAVA) && $(PYTEST) -o python_files='soak_*.py' -o timeout=0 --hypothesis-profile soak \
		--minutes $(MINUTES) --seed $(SEED) -v $(ARGS)

fault: $(STAMP) ## play a fault again: NAME=agent-link-reset, or NAME=store-resets-after SEED=7, with RATE=0.3 too; alone lists them
	@$(WITH_JAVA) && exec $(PY) -m tests.faults $(if $(NAME),$(NAME) $(SEED)) $(if $(RATE),--rate $(RATE))

faults: $(STAMP) ## play SCHEDULES=530 of each fault, and write docs/faults.md
	@exec $(PY) -m tests.faults --all $(SCHEDULES)

faults-real: $(STAMP) ## play each fault of real connections, processes, disks and of Kubernetes, and write docs/faults.md; NAME="kafka disk" for some
	@$(WITH_JAVA) && exec $(PY) -m tests.faults --real $(NAME)

lint: $(STAMP) ## check style, formatting and which room imports which
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache --no-logo

types: $(STAMP) ## check types
	$(VENV)/bin/mypy

# The wheel is built of the source distribution. The notes that setuptools leaves would pass for
# another installation.
dist: $(STAMP) ## what is released: a source distribution, and of that a wheel, in the folder dist
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .
	rm -rf *.egg-info

bench: $(STAMP) ## measure; ONLY=name for one benchmark
	$(WITH_JAVA) && exec $(PY) -m benchmarks $(ONLY)

# mutmut is of no use to anything else, and installed only for this.
$(VENV)/.mutants: $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[mutants]'
	@touch $@

mutants: $(VENV)/.mutants ## small changes of the code that no test notices; ONLY=module for one
	$(PY) -m dev.mutants $(ONLY)

$(VENV)/.audit: $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[audit]'
	@touch $@

# Not in .ci/run: it needs PyPI itself, and no mirror of it will do.
audit: $(VENV)/.audit ## ask PyPI for known vulnerabilities of all that is installed
	$(VENV)/bin/pip-audit --strict --skip-editable

# Material tells at each build of what may come after it.
docs: $(STAMP) ## the documentation as a site, in the folder site; a link that leads nowhere fails
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --clean

clean: ## remove what the targets above have made
	rm -rf $(VENV) .demo .test .cache .mutants .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist site *.egg-info demo-report.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
