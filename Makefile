# Every target sets up .venv by itself. `make` alone explains them.

BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check bench clean

help:
	@echo "Mainstem: transactional stream processing on Spark"
	@echo
	@echo "  make demo    replay, live run and query of a million events, checked against each other (about a minute)"
	@echo "  make test    lint, types and all tests but the long ones: what CI runs"
	@echo "  make check   the same as make test"
	@echo "  make bench   events per second of every way to run the ledger, beside plain PySpark"
	@echo "  make clean   delete caches and build files (delete .venv by hand to start from nothing)"
	@echo
	@echo "  One test:    $(BIN)/python -m pytest tests/test_layers.py -k pyspark"
	@echo "  More tests:  $(BIN)/python -m pytest -m long"
	@echo "  The tool:    $(BIN)/mainstem --help"

demo: $(READY)
	@$(BIN)/mainstem demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: test

bench: $(READY)
	@$(BIN)/python -m mainstem.bench ledger

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis spark-warehouse
	find mainstem tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml scripts/setup
	@scripts/setup
	@touch $@
