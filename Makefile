.DEFAULT_GOAL := help
SHELL := /bin/bash

# Versions of the tools that are not part of the module. They are built by the
# go command on first use and cached by it.
SQLC        := github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME    ?= 30s

.PHONY: help build demo test race chaos fuzz lint vuln generate migrate bench

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/weir, one static binary
	CGO_ENABLED=0 go build -trimpath -o bin/weir ./cmd/weir

demo: build ## send a campaign of 10 000 through a simulated Cloud API, and prove it
	bin/weir demo

test: ## run every test (no Docker and no running Postgres needed)
	go test -timeout 30m ./...

race: ## run every test under the race detector (the fleets of internal/chaos are left out)
	go test -race -timeout 30m ./...

chaos: ## break a fleet of real nodes in every way we know, and hold it to every promise
	go test ./internal/chaos -run TestFaults -count 1 -timeout 60m -v -chaos.seed 0 -chaos.fault all -chaos.parallel 3 -chaos.dir $(CURDIR)/bin/chaos

fuzz: ## run every fuzz target for FUZZTIME (default 30s) each
	@set -e; go list ./... | while read -r pkg; do \
	  { go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true; } | while read -r target; do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; done; done

lint: ## gofumpt, vet, staticcheck, tidy go.mod
	@out=$$(go run $(GOFUMPT) -l cmd engine internal migrations dashboards); if [ -n "$$out" ]; then echo "run gofumpt -w on:"; echo "$$out"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go mod tidy -diff

vuln: ## govulncheck (needs vuln.go.dev)
	go run $(GOVULNCHECK) ./...

generate: ## regenerate internal/store/db from sql/queries with sqlc
	cd sql && go run $(SQLC) generate -f sqlc.yaml

migrate: build ## bring the database of WEIR_DATABASE_URL (or the embedded one) up to date
	bin/weir migrate up

bench: build ## what this machine and its Postgres sustain, beside baselines: one table (the Go benchmarks: go test -bench)
	bin/weir bench
