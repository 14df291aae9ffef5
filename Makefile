# Each target is a script of the same name in scripts/, which says in its head what it does.

SHELL := /bin/bash
FUZZ_SECONDS ?= 60

.PHONY: help setup build lab deb rpm arch piuparts arm64 release demo check test test-machines results fuzz mutants clean install uninstall

help:
	@echo 'make setup     install what is missing (Debian 12+, Ubuntu 24.04+; asks sudo when needed)'
	@echo 'make build     build target/release/paralfetch'
	@echo 'make lab       build target/release/lab, which compares prefetchers (docs/lab.md)'
	@echo 'make deb       build a Debian package of it, in target/debian'
	@echo 'make rpm       build an rpm package of it, in target/rpm'
	@echo 'make arch      build a package for pacman (Arch Linux) of it, in target/arch'
	@echo 'make piuparts  check how the Debian package is installed and removed, in a minimal system'
	@echo 'make arm64     build the program for arm64 on another processor, and try it under emulation'
	@echo 'make release   build what a release consists of, in target/artefacts'
	@echo 'make demo      measure LibreOffice Writer in an image: cold, warm, prefetched'
	@echo 'make check     format, lints, floors, scripts and unit tests: no root, no network'
	@echo 'make test      that, and all that runs on this kernel: as root, with the release build'
	@echo 'make test-machines  what needs other machines or many minutes: all that has not passed yet, or PART=NAME'
	@echo 'make results   measure the applications of the results table, into results/'
	@echo 'make fuzz      fuzz every target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make mutants   change the pure code in many small ways, and show which ones no unit test notices (hours)'
	@echo 'make clean     remove what was built'
	@echo 'make install   install what make build has made, with the system service (PREFIX, UNITS, DESTDIR)'
	@echo 'make uninstall remove that; profiles and changed configuration stay'

setup:
	@scripts/setup.sh

build:
	@scripts/build.sh

lab:
	@scripts/build.sh lab

deb:
	@scripts/deb.sh

rpm:
	@scripts/rpm.sh

arch:
	@scripts/arch.sh

piuparts:
	@scripts/piuparts.sh

arm64:
	@scripts/arm64.sh

release:
	@scripts/release.sh

demo:
	@scripts/demo.sh

check:
	@scripts/check.sh

test:
	@scripts/test.sh

test-machines:
	@FUZZ_SECONDS='$(FUZZ_SECONDS)' scripts/test_machines.sh $(PART)

results:
	@scripts/results.sh

fuzz:
	@scripts/fuzz.sh $(FUZZ_SECONDS)

mutants:
	@scripts/mutants.sh

clean:
	@scripts/clean.sh

install:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' UNITS='$(UNITS)' scripts/install.sh

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' UNITS='$(UNITS)' scripts/install.sh uninstall
