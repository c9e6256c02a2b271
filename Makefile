# The tasks of SiloMQ. `make` lists them. Each task first installs what it needs into .venv.
#
# The package is installed by copying, because an editable install makes each start slower, and the time of restarts is
# measured. A changed source file costs a reinstall of about two seconds. Object files stay in build/.

PYTHON ?= python3
# The versions for which `make wheel` builds a wheel.
PYTHONS ?= $(PYTHON)
VENV := .venv
# -P keeps the current folder off the import path, so that the installed package runs and not the sources.
RUN := $(VENV)/bin/python -P
STAMPS := $(VENV)/.stamps
# Up to three recipes run at the same time. One pip at a time changes the environment: two disturb each other.
MAKEFLAGS += --jobs=3
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
INSTALL := flock $(STAMPS) $(PIP) install
# Folders are prerequisites too, because a deleted file changes its folder's time. The slash tells the folder `bench/`
# from the task `bench`.
PACKAGES := actors bench broker cli client conf monitor names pipeline pyspark_silomq shm store supervisor testing tools
SOURCES := pyproject.toml MANIFEST.in $(wildcard __init__.py py.typed) \
	$(shell find $(addsuffix /,$(PACKAGES) setup) -name __pycache__ -prune -o \
		\( -type d -o -name '*.py' -o -name '*.py[ix]' -o -name '*.pxd' -o -name '*.h' -o -name '*.toml' -o -name '*.json' -o -name '*.service' \
		-o -name '*.socket' -o -name '*.sysusers' -o -name '*.tmpfiles' \) -print)
FAULTS := build/faults
# RocketMQ's own releases, for the tests that open each other's stores.
INTEROP := build/interop
RELEASES := 5.3.3 4.9.8
# The last release of RocketMQ 4 whose broker was published.
BROKER4 := 4.9.7
# The release whose broker `make bench-broker` measures.
PEER := $(firstword $(RELEASES))
BENCH_JAVA := bench/broker/java
# Other message stores that are measured beside this one.
PEERS := build/peers
PEERS_JAVA := bench/harness/targets/peers/java
NATS_SERVER := v2.15.2
JAVA := tests/interop/java
# RocketMQ's clients in other languages, each with a folder of its own below INTEROP.
CLIENTS := go node python
PROXY := tests/interop/proxy
EXAMPLES := examples/go examples/java
# What the pages of `make docs` run in a browser.
SCRIPTS := mermaid@11.17.2 iframe-worker@1.0.4
# Further arguments for pytest, or for the task: make test ARGS='tests/unit -k ring'
ARGS ?=
# pip makes no .pyc files here (see FASTER). Python makes a module's .pyc file at its first import, which this variable
# would forbid.
unexport PYTHONDONTWRITEBYTECODE
# Test modules run in parallel, because they wait most of the time. In one process: make test JOBS=0
JOBS ?= 4

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo serve test retest check lint fix bench bench-recovery bench-spark bench-broker bench-docs bench-peers docs torture mutants fault-build interop install wheel clean

help:  ## list the tasks
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMPS)/demo $(STAMPS)/spark $(STAMPS)/silomq  ## a tour on real data: send, read, kill, recover, compute
	$(RUN) -m silomq.cli.demo

# Not ./store, which has sources.
serve: $(STAMPS)/silomq  ## run a store in ./my-store until Ctrl-C
	$(VENV)/bin/silo serve --store ./my-store

test: lint fault-build interop $(STAMPS)/demo $(STAMPS)/bench $(STAMPS)/classes $(STAMPS)/browser $(STAMPS)/docs $(STAMPS)/scripts $(STAMPS)/systemd $(STAMPS)/collected  ## everything CI runs: checks and all tests but the long ones
	SILOMQ_FAULT_BUILD='$(CURDIR)/$(FAULTS)' $(RUN) -m pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder $(ARGS)

# Alone: a machine that others use too can starve a test beside three others. A test with a real cause fails here too.
# More than ten failures are no accident.
retest:  ## run the tests that failed in the last `make test` once more, one at a time
	$(RUN) tests/support/failed_tests.py --most 10
	SILOMQ_FAULT_BUILD='$(CURDIR)/$(FAULTS)' $(RUN) -m pytest --last-failed --last-failed-no-failures=none -v $(ARGS)

check: lint  ## linters, types, and the tests of the source's own shape
	$(RUN) -m pytest -q tests/tidy $(ARGS)

fix: $(STAMPS)/dev $(STAMPS)/silomq  ## mend what a tool can mend
	$(RUN) -m silomq.conf.annotate > build/silomq.toml && mv build/silomq.toml conf/silomq.toml
	$(RUN) -m silomq.conf.annotate broker > build/silomq-broker.toml \
		&& mv build/silomq-broker.toml conf/silomq-broker.toml
	PYTHONPATH=setup $(RUN) setup/reference_pages.py > /dev/null
	$(RUN) -m ruff check --fix --exit-zero .
	$(RUN) -m ruff format .

bench: $(STAMPS)/bench $(STAMPS)/silomq  ## measure against this machine's limits
	$(RUN) -m silomq.bench.run

bench-recovery: $(STAMPS)/bench $(STAMPS)/silomq  ## measure start-up and scans against this machine's limits
	$(RUN) -m silomq.bench.recovery

bench-spark: $(STAMPS)/bench $(STAMPS)/classes $(STAMPS)/silomq  ## measure Spark over a store against Spark over Parquet
	$(RUN) -m silomq.bench.spark
	$(RUN) -m silomq.bench.spark.memory

bench-broker: $(INTEROP)/bench/.stamp $(STAMPS)/bench $(STAMPS)/silomq  ## measure the broker beside RocketMQ's, by RocketMQ's own client
	$(RUN) -m silomq.bench.broker $(ARGS)

bench-docs: $(STAMPS)/bench $(STAMPS)/silomq  ## make docs/benchmarks.md and its plots from bench/results
	$(RUN) -m silomq.bench.harness.suite.document bench/results docs

docs: $(STAMPS)/docs $(STAMPS)/scripts $(STAMPS)/silomq  ## build the documentation as a site in build/site; broken links fail
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet

# What cannot be had here is said, and the other peers are installed.
bench-peers: $(STAMPS)/bench  ## install the other message stores that `silo bench` can measure
	@for part in java4 java5 chronicle kafka redis nats python; do \
		$(MAKE) --no-print-directory $(PEERS)/$$part/.stamp || { test -z "$$CI" && \
			echo "A peer ($$part) cannot be had: silo bench works without it" >&2; } || exit 1; \
	done

torture: fault-build interop $(STAMPS)/dev $(STAMPS)/demo $(STAMPS)/bench $(STAMPS)/spark $(STAMPS)/silomq  ## the long forms of the crash and endurance tests
	SILOMQ_LONG=1 SILOMQ_FAULT_BUILD='$(CURDIR)/$(FAULTS)' $(RUN) -m pytest -m slow $(ARGS)

mutants: fault-build $(STAMPS)/dev $(STAMPS)/silomq  ## plant known bugs one at a time: a test must find each of them
	PYTHONPATH=tests SILOMQ_FAULT_BUILD='$(CURDIR)/$(FAULTS)' $(RUN) tests/mutants/run.py $(ARGS)

install: $(STAMPS)/silomq  ## install the package into .venv

wheel: $(STAMPS)/dev  ## build dist/: an sdist and a wheel that needs no compiler, and try them
	$(VENV)/bin/python setup/release.py $(PYTHONS)

fault-build: $(FAULTS)/.stamp  ## a second copy whose compiled code can be told to die

# Without the tools of a language or its registry the tests that need it are skipped. In CI that is an error.
interop:  ## fetch RocketMQ and its clients, compile the programs that run them
	@for part in $(RELEASES) $(BROKER4) bench proxy proxy-python proxy-node $(CLIENTS) $(EXAMPLES); do \
		$(MAKE) --no-print-directory $(INTEROP)/$$part/.stamp || { test -z "$$CI" && \
			echo "RocketMQ ($$part) cannot be had: the tests that need it will be skipped" >&2; } || exit 1; \
	done

clean:  ## remove everything that make made
	rm -rf $(VENV) build dist demo-store *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -prune -exec rm -rf {} +

lint: $(STAMPS)/dev $(STAMPS)/spark $(STAMPS)/silomq
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy -p silomq
	$(RUN) -m mypy tests setup

# Prints a list of requirements of pyproject.toml, so that this file needs no list of its own.
define REQUIREMENTS
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    table = tomllib.load(file)
lists = dict(table["project"]["optional-dependencies"])
lists["base"] = table["build-system"]["requires"] + table["project"]["dependencies"]
print(*lists[sys.argv[1]], sep="\n")
endef
export REQUIREMENTS

# An archive of Spark's classes that a JVM maps: each JVM starts in two thirds of the time. Making the archive takes as
# long as ten starts save, so `make demo` does not make it.
$(STAMPS)/classes: $(STAMPS)/spark | $(STAMPS)/silomq
	$(RUN) -m silomq.pipeline.spark.classes || echo "No class archive: Spark will start more slowly" >&2
	touch $@

# A browser, for the tests of pages. Without it they are skipped. In CI that is an error.
$(STAMPS)/browser: | $(STAMPS)/venv
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && apt-get -qq update \
		&& apt-get -qq install --no-install-recommends --yes chromium > /dev/null; } \
		|| echo "Chromium cannot be had: the tests that need it will be skipped" >&2
	touch $@

# Scripts of the documentation: one draws its diagrams, the other lets a page be searched that was opened from the disk.
# Without them the site shows the text of diagrams, and has no search.
$(STAMPS)/scripts: | $(STAMPS)/venv
	rm -rf build/docs
	mkdir -p build/docs
	@{ cd build/docs && npm pack --silent $(SCRIPTS) > /dev/null \
		&& tar -xzOf mermaid-*.tgz package/dist/mermaid.min.js > mermaid.min.js \
		&& tar -xzOf iframe-worker-*.tgz package/shim/index.js > iframe-worker.js && rm *.tgz; } 2> /dev/null \
		|| { rm -f build/docs/*; test -z "$$CI" && echo "npm cannot be had: no diagrams and no search in build/site" >&2; }
	touch $@

# pytest compiles the modules of tests, and of the package, in a form of its own. Each of its processes would do that at
# the same time. What cannot be imported is told by the run itself.
$(STAMPS)/collected: $(STAMPS)/silomq | $(STAMPS)/dev $(STAMPS)/demo $(STAMPS)/bench $(STAMPS)/spark
	$(RUN) -m pytest --collect-only -qq -p no:cacheprovider > /dev/null 2>&1 || true
	touch $@

# systemd-analyze, for the tests of units. Nothing is started.
$(STAMPS)/systemd: | $(STAMPS)/venv
	@command -v systemd-analyze > /dev/null || { test "$$(id -u)" = 0 && apt-get -qq update \
		&& apt-get -qq install --no-install-recommends --yes systemd > /dev/null; } \
		|| echo "systemd cannot be had: the tests that need it will be skipped" >&2
	touch $@

$(STAMPS)/venv:
	@$(PYTHON) setup/check_machine.py
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	touch $@

# pip builds PySpark's wheel of 400 MB from source and unpacks it at once. Without compression that takes half the time.
FASTER := --no-compile --config-settings='--build-option=--compression=stored'

# The base comes first: the package can be compiled while the others are installed.
$(STAMPS)/demo $(STAMPS)/bench $(STAMPS)/bench-peers $(STAMPS)/spark $(STAMPS)/docs $(STAMPS)/dev: | $(STAMPS)/base
$(STAMPS)/base $(STAMPS)/demo $(STAMPS)/bench $(STAMPS)/bench-peers $(STAMPS)/spark $(STAMPS)/docs $(STAMPS)/dev: pyproject.toml constraints.txt | $(STAMPS)/venv
	$(RUN) -c "$$REQUIREMENTS" $(@F) > $(STAMPS)/$(@F).txt
	$(INSTALL) $(FASTER) -c constraints.txt -r $(STAMPS)/$(@F).txt
	touch $@

$(STAMPS)/silomq: $(STAMPS)/base $(SOURCES)
	rm -rf build/wheel
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(INSTALL) --no-deps --force-reinstall build/wheel/*.whl
	touch $@

$(INTEROP)/%/lib/.stamp: $(JAVA)/pom.xml
	rm -rf $(@D)
	mkdir -p $(@D)
	mvn -B -q -f $(JAVA)/pom.xml -Drocketmq.version=$* dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory='$(CURDIR)/$(@D)'
	touch $@

# RocketMQ 5 has other packages and constructors than RocketMQ 4. The folders v5 and v4 hold the code that differs.
.PRECIOUS: $(INTEROP)/%/lib/.stamp
$(INTEROP)/%/.stamp: $(INTEROP)/%/lib/.stamp $(shell find $(JAVA) -name '*.java')
	rm -rf $(@D)/classes
	javac -Xlint:all,-cast,-classfile,-deprecation,-path,-processing -Werror -encoding UTF-8 \
		-cp '$(@D)/lib/*' -d $(@D)/classes \
		$$(find $(JAVA)/common $(JAVA)/v$(firstword $(subst ., ,$*)) -name '*.java')
	touch $@

$(INTEROP)/$(BROKER4)/.stamp: $(INTEROP)/$(BROKER4)/lib/.stamp
	touch $@

# The Java client of `make bench-broker`.
$(INTEROP)/bench/.stamp: $(INTEROP)/$(PEER)/lib/.stamp $(shell find $(BENCH_JAVA) -name '*.java')
	rm -rf $(@D)
	mkdir -p $(@D)
	javac -Xlint:all,-classfile,-path,-processing -Werror -encoding UTF-8 \
		-cp '$(INTEROP)/$(PEER)/lib/*' -d $(@D)/classes $$(find $(BENCH_JAVA) -name '*.java')
	touch $@

# Jars of a profile of the peers' pom.xml.
.PRECIOUS: $(PEERS)/%/lib/.stamp
$(PEERS)/%/lib/.stamp: $(PEERS_JAVA)/pom.xml
	rm -rf $(@D)
	mkdir -p $(@D)
	mvn -B -q -f $< -P $* dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory='$(CURDIR)/$(@D)'
	touch $@

# The workers in Java, compiled against RocketMQ 4 and 5 and Chronicle Queue. $(1) are folders of sources, $(2) jars.
define COMPILE_PEER
	rm -rf $(@D)/classes
	javac -Xlint:all,-classfile,-deprecation,-path,-processing,-try -Werror -encoding UTF-8 \
		-cp '$(PEERS)/histogram/lib/*:$(2)' -d $(@D)/classes \
		$$(find $(addprefix $(PEERS_JAVA)/,core $(1)) -name '*.java')
	touch $@
endef
PEERS_SOURCES := $(shell find $(PEERS_JAVA) -name '*.java')

$(PEERS)/java5/.stamp: $(INTEROP)/5.3.3/lib/.stamp $(PEERS)/histogram/lib/.stamp $(PEERS_SOURCES)
	$(call COMPILE_PEER,rocketmq v5 broker,$(INTEROP)/5.3.3/lib/*)

$(PEERS)/java4/.stamp: $(INTEROP)/4.9.8/lib/.stamp $(PEERS)/histogram/lib/.stamp $(PEERS_SOURCES)
	$(call COMPILE_PEER,rocketmq v4,$(INTEROP)/4.9.8/lib/*)

$(PEERS)/chronicle/.stamp: $(PEERS)/chronicle/lib/.stamp $(PEERS)/histogram/lib/.stamp $(PEERS_SOURCES)
	$(call COMPILE_PEER,chronicle,$(PEERS)/chronicle/lib/*)

$(PEERS)/kafka/.stamp: $(PEERS)/kafka/lib/.stamp
	touch $@

# Debian's packages, unpacked here: nothing of the system is changed.
$(PEERS)/redis/.stamp:
	rm -rf $(@D)
	mkdir -p $(@D)
	cd $(@D) && apt-get -qq download redis-server redis-tools libatomic1 libjemalloc2 liblzf1
	cd $(@D) && for package in *.deb; do dpkg-deb -x $$package . && rm $$package; done
	touch $@

$(PEERS)/nats/.stamp:
	mkdir -p $(@D)
	GOBIN='$(CURDIR)/$(@D)' CGO_ENABLED=0 go install github.com/nats-io/nats-server/v2@$(NATS_SERVER)
	touch $@

$(PEERS)/python/.stamp: $(STAMPS)/bench-peers
	mkdir -p $(@D)
	touch $@

# RocketMQ's proxy, and its gRPC client, which has other releases of the same libraries.
$(INTEROP)/proxy/jars/.stamp: $(PROXY)/pom.xml
	rm -rf $(@D)
	for part in server client; do \
		mvn -B -q -f $(PROXY)/pom.xml -P $$part dependency:copy-dependencies \
			-DincludeScope=runtime -DoutputDirectory='$(CURDIR)/$(@D)/'$$part || exit 1; \
	done
	touch $@

.PRECIOUS: $(INTEROP)/proxy/jars/.stamp
$(INTEROP)/proxy/.stamp: $(INTEROP)/proxy/jars/.stamp $(shell find $(PROXY) -name '*.java')
	rm -rf $(@D)/classes
	javac -Xlint:all,-classfile,-path,-processing -Werror -encoding UTF-8 \
		-cp '$(@D)/jars/client/*' -d $(@D)/classes $$(find $(PROXY) -name '*.java')
	touch $@

$(INTEROP)/go/.stamp: $(wildcard tests/interop/go/*)
	mkdir -p $(@D)
	cd tests/interop/go && CGO_ENABLED=0 go build -o '$(CURDIR)/$(@D)/client' .
	touch $@

$(INTEROP)/examples/go/.stamp: $(wildcard docs/examples/go/*)
	mkdir -p $(@D)
	cd docs/examples/go && CGO_ENABLED=0 go test -c -o '$(CURDIR)/$(@D)/orders.test' .
	touch $@

# Only a run fetches all that a run needs. The test finds no `silo` here: its failure is no failure of the task.
$(INTEROP)/examples/java/.stamp: $(shell find docs/examples/java -type f)
	rm -rf $(@D)
	mkdir -p $(@D)
	cp -r docs/examples/java/. $(@D)
	cd $(@D) && { mvn -B test -Dmaven.test.failure.ignore=true > maven.log || { cat maven.log; exit 1; }; }
	touch $@

# A lock file would name the registry's host: package.json pins the version. The second one has the gRPC client.
$(INTEROP)/node/.stamp: tests/interop/node/package.json
$(INTEROP)/proxy-node/.stamp: tests/interop/proxy_node/package.json
$(INTEROP)/node/.stamp $(INTEROP)/proxy-node/.stamp:
	rm -rf $(@D)
	mkdir -p $(@D)
	cp $< $(@D)
	cd $(@D) && npm install --silent --no-package-lock --no-audit --no-fund --ignore-scripts
	touch $@

$(INTEROP)/python/.stamp: tests/interop/python_client/requirements.txt $(STAMPS)/venv
	rm -rf $(@D)
	$(PIP) install --target $(@D) -r $<
	touch $@

# RocketMQ's gRPC client for Python, whose package has the name of the other one.
$(INTEROP)/proxy-python/.stamp: tests/interop/proxy_python/requirements.txt $(STAMPS)/venv
	rm -rf $(@D)
	$(PIP) install --target $(@D) -r $<
	touch $@

# Object files of the two builds differ in CFLAGS, so each build has its own folder. Files that do not differ are copied:
# the generated C files, and compiled modules without fault points.
$(FAULTS)/.stamp: $(STAMPS)/silomq
	mkdir -p $(FAULTS) build/faults-work
	$(RUN) setup/build_commands.py SILO_FAULT | sed 's/pyx$$//' > build/faults.differ
	cd build && cp -p --parents $$(find temp.* -name '*.c') \
		$$(find lib.* -name '*.so' | grep -vFf faults.differ) faults-work
	printf '[build]\nbuild_base = build/faults-work\n' > build/faults.cfg
	DIST_EXTRA_CONFIG='$(CURDIR)/build/faults.cfg' CFLAGS='$(CFLAGS) -DSILO_FAULT_POINTS=1' \
		$(INSTALL) --no-deps --no-build-isolation --upgrade --target $(FAULTS) .
	touch $@
