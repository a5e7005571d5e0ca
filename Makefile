# Every target sets itself up: the first one makes .venv and installs what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3.14 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# modules are compiled when they are first used, not all of them now
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable

.PHONY: blender-addon blender-extension demo dist gallery test test-long test-oldest mutants lint bench docs lock clean

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weft needs Python 3.11 or later, and this is " + sys.executable + ", Python " + sys.version.split()[0] + ": name another one with  make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# one stamp a set of extras, remade when pyproject.toml changes
$(VENV)/.installed-%: pyproject.toml $(BIN)/python
	$(INSTALL) '.[$(subst +,$(comma),$*)]'
	touch $@
comma := ,

demo: $(VENV)/.installed-all
	$(BIN)/weft demo --out out

# as many tests at a time: most of them use one core; a file stays in one process
PROCESSES ?= 2
IN_PARALLEL := -n $(PROCESSES) --dist loadfile

test: $(VENV)/.installed-all+test
	$(BIN)/python -m pytest $(IN_PARALLEL)

test-long: $(VENV)/.installed-all+test
	$(BIN)/python -m pytest -m long
	$(BIN)/python tests/property_hour.py

# the oldest versions that pyproject.toml allows, for the tests of what touches other packages
OLDEST := .venv-oldest
$(OLDEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--constraint $(OLDEST)/constraints.txt --editable '.[all,test]'
	touch $@

test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest $(IN_PARALLEL) tests/scene tests/mesh tests/cache tests/exchange tests/cli tests/run \
		tests/view/test_view_stills.py

# breaks the code in many places, one at a time: do the tests notice?
mutants: $(VENV)/.installed-all+test
	$(BIN)/python tests/mutants.py

# the versions with which the newest tests passed, for who wants exactly these: pip install -r requirements-dev.lock
lock: $(VENV)/.installed-all+test+dev
	$(BIN)/python -m pip freeze --exclude-editable > requirements-dev.lock

lint: $(VENV)/.installed-all+test+dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-all+test
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-all+dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# simulates all examples; takes a while
gallery: $(VENV)/.installed-all+beauty
	$(BIN)/python examples/gallery.py

# source archive and wheel, tested in clean environments of every Python from 3.11 to 3.14 that is here
dist: $(VENV)/.installed-dev
	$(BIN)/python packaging/dist.py dist

# zips for Blender's Preferences, Get Extensions, Install from Disk: with an installed weft, and with weft inside
blender-addon:
	$(PYTHON) integrations/blender/make_zip.py dist/weft_cloth.zip

BLENDER_PYTHON ?= 3.11
blender-extension:
	$(PYTHON) integrations/blender/make_zip.py dist/weft_cloth-extension-py$(BLENDER_PYTHON).zip --wheels --python $(BLENDER_PYTHON)

clean:
	rm -rf $(VENV) $(OLDEST) out site dist
