# sandlock: plain GNU make. Everything that is built lands below $B.
#
#	make				the program and the libraries
#	make check			every test; as root it installs what they need
#	make recheck			what of that failed, once more
#	make lint			what a reviewer should not have to look for
#	make demo			a real bundle, changed, aborted, committed
#	make bench			side by side with crun, runc, bwrap
#	make bench-peers		the Rust sandlock, for that
#	make install DESTDIR= PREFIX=
#
# Variables: DEVELOPER=1 (warnings are errors), SAN=address,undefined,
# CC=clang, B=directory, CFLAGS, LDFLAGS, V=1 (whole commands). A change of a
# flag rebuilds.

B ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
OBJCOPY ?= objcopy
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib

headers := include/sandlock.h $(wildcard include/sandlock/*.h)
version := $(shell sed -n 's/^.define SANDLOCK_VERSION "\(.*\)"/\1/p' \
	include/sandlock/base.h)
soname := libsandlock.so.0

CFLAGS ?= -O2 -g
base_cflags := -std=gnu17 -D_GNU_SOURCE -Iinclude -Iruntime -I. -fPIC \
	-fvisibility=hidden -ffunction-sections -fdata-sections \
	-fno-semantic-interposition -fstack-protector-strong \
	-Wall -Wextra -Wformat=2 -Wundef -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Wvla \
	-Wno-unused-parameter -Wno-missing-field-initializers
# Start-up counts: the command is linked statically, which is 0.2 ms of each
# start and fork. It asks no name service, the one thing that would load objects.
base_ldflags := -Wl,--as-needed -Wl,--gc-sections -Wl,-z,relro,-z,now \
	-Wl,-z,noexecstack
exe_ldflags := -pie
# Sanitizers are shared objects; some machines' libc has no start for static-pie.
cmd_ldflags := $(if $(SAN),-pie,$(if \
	$(filter /%,$(shell $(CC) -print-file-name=rcrt1.o)),-static-pie,-static))
ifdef DEVELOPER
base_cflags += -Werror
endif
ifdef SAN
base_cflags += -fsanitize=$(SAN) -fno-sanitize-recover=all \
	-fno-omit-frame-pointer -DSANITIZED
base_ldflags += -fsanitize=$(SAN)
else ifeq ($(filter -O0,$(CFLAGS)),)
base_cflags += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif

lib_src := $(wildcard runtime/*.c runtime/*/*.c spec/*.c hooks/*.c)
cmd_src := $(wildcard cmd/*.c)
unit_src := $(wildcard tests/unit/test_*.c)
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
man_src := $(wildcard docs/man/*.[1-8].scd)

lib_obj := $(lib_src:%.c=$B/obj/%.o) $B/obj/runtime/sandbox/launcher/blob.o
cmd_obj := $(cmd_src:%.c=$B/obj/%.o)
unit_bin := $(unit_src:tests/unit/%.c=$B/unit/%)
fuzz_bin := $(fuzz_src:tests/fuzz/%.c=$B/fuzz/%)
man := $(man_src:docs/man/%.scd=$B/man/%)

static_libs := -Wl,-Bstatic -lseccomp -lcap -lyajl_s -lmd -Wl,-Bdynamic
shared_libs := -lseccomp -lcap -lyajl -lmd

# Commands are shown short, unless V is set.
say = @$(if $(V),set -x;,printf '  %-7s %s\n' $1 $@;)

cc = $(CC) $(base_cflags) $(CFLAGS)
ld = $(CC) $(base_ldflags) $(CFLAGS) $(LDFLAGS)

all: $B/sandlock $B/sandlock-oci $B/libsandlock.so $B/libsandlock.a

# What everything is built with, and from: files whose time changes only with
# their contents, so that a new flag rebuilds and a removed source relinks.
flags := $(CC) $(base_cflags) $(CFLAGS) $(base_ldflags) $(exe_ldflags) \
	$(cmd_ldflags) $(LDFLAGS)
stamp = @mkdir -p $(@D); echo '$(subst ','\'',$1)' | cmp -s - $@ || \
	echo '$(subst ','\'',$1)' >$@

$B/flags: FORCE
	$(call stamp,$(flags))

$B/sources: FORCE
	$(call stamp,$(lib_src) $(cmd_src))

$B/obj/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(call say,CC) $(cc) -MMD -MP -c -o $@ $<

# What --version says it was built from.
commit := $(shell git describe --always --dirty 2>/dev/null)

$B/commit: FORCE
	$(call stamp,$(commit))

$B/obj/cmd/version.o: $B/commit
ifneq ($(commit),)
$B/obj/cmd/version.o: private base_cflags += -DBUILD_COMMIT='"$(commit)"'
endif

# The launcher is a program of its own, embedded as bytes: no libc, no start
# files, no sanitizer, whatever the library is built with.
launcher_cflags := -std=gnu17 -O2 -Iruntime -ffreestanding \
	-fno-stack-protector -fno-pic -fno-asynchronous-unwind-tables \
	-Wall -Wextra
launcher_ldflags := -nostdlib -static -s -Wl,-z,noseparate-code \
	-Wl,-z,noexecstack -Wl,--build-id=none

$B/launcher: runtime/sandbox/launcher/main.c runtime/base/raw_call.h $B/flags
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(launcher_cflags) $(launcher_ldflags) -o $@ $<

$B/obj/runtime/sandbox/launcher/blob.o: runtime/sandbox/launcher/blob.S \
		$B/launcher
	@mkdir -p $(@D)
	$(call say,AS) $(CC) -DLAUNCHER='"$B/launcher"' -c -o $@ $<

# For the program and the tests, which use spec/ and base/ too.
$B/obj/internal.a: $(lib_obj) $B/sources
	@rm -f $@
	$(call say,AR) $(AR) rcs $@ $(lib_obj)

# For others: one object that exports sandlock_* and nothing else.
$B/libsandlock.a: $(lib_obj) $B/sources
	@$(CC) -r -nostdlib -o $B/obj/libsandlock.o $(lib_obj)
	@$(OBJCOPY) --localize-hidden $B/obj/libsandlock.o
	@rm -f $@
	$(call say,AR) $(AR) rcs $@ $B/obj/libsandlock.o

$B/libsandlock.so: $(lib_obj) $B/sources runtime/libsandlock.map
	$(call say,LD) $(ld) -shared -Wl,-soname,$(soname) \
		-Wl,--version-script=runtime/libsandlock.map \
		-o $@ $(lib_obj) $(shared_libs)
	@ln -sf libsandlock.so $B/$(soname)

# Copied, as an installed one is: of what a linker writes bit by bit the page
# cache has small folios, and a start that maps those takes 0.1 ms a process.
$B/sandlock: $(cmd_obj) $B/obj/internal.a $B/sources
	$(call say,LD) $(ld) $(cmd_ldflags) -o $@.ld $(cmd_obj) \
		$B/obj/internal.a \
		$(if $(SAN),$(static_libs),-lseccomp -lcap -lyajl_s -lmd)
	@rm -f $@
	@cp $@.ld $@
	@rm $@.ld

$B/sandlock-oci: $B/sandlock
	@ln -sf sandlock $@

# ---------------------------------------------------------------- tests --

$B/unit/%: $B/obj/tests/unit/%.o $B/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD) $(ld) $(exe_ldflags) -o $@ $^ $(static_libs) -lcmocka

# A fuzz target is LLVMFuzzerTestOneInput; replay.c feeds it files.
$B/fuzz/%: $B/obj/tests/fuzz/%.o $B/obj/tests/fuzz/replay.o $B/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD) $(ld) $(exe_ldflags) -o $@ $^ $(static_libs)

# An embedder for the suites: sees the public header, links the library.
$B/tests/%: tests/helpers/%.c $B/libsandlock.a $(headers)
	@mkdir -p $(@D)
	$(call say,LD) $(cc) -Wno-pedantic $(base_ldflags) $(exe_ldflags) \
		$(LDFLAGS) -o $@ $< $B/libsandlock.a $(static_libs)

# It starts sandboxes, which the program serves.
$B/unit/test_cases: | $B/sandlock

# Examples are what a user builds: the public header and the library.
example_bin := $(patsubst examples/c/%.c,$B/examples/%,$(wildcard examples/c/*.c))

$B/examples/%: examples/c/%.c $B/libsandlock.a $(headers)
	@mkdir -p $(@D)
	$(call say,LD) $(cc) $(base_ldflags) $(exe_ldflags) $(LDFLAGS) \
		-o $@ $< $B/libsandlock.a $(static_libs)

examples: $(example_bin)

unit-build: $(unit_bin) $B/tests/embed $B/tests/policy $B/tests/handle \
		$(example_bin)
fuzz-build: $(fuzz_bin)

unit: $(unit_bin)
	@failed=; for t in $^; do $$t || failed="$$failed $$t"; done; \
		[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

fuzz-replay: $(fuzz_bin)
	@for t in $^; do \
		name=$${t##*/fuzz_}; \
		find tests/fuzz/corpus/$$name -type f -exec $$t {} + || exit 1; \
	done

# The threads of the supervisor, under ThreadSanitizer. To a child that a test
# forks each thread that waits for being joined is a leak.
tsan_unit := test_approvals test_askslot test_gate test_hold test_lane test_net_calls test_net_ports test_processes test_supervise \
	test_supervise_stress test_capi test_handlers test_calllink

tsan: $B/sandlock
	+@$(MAKE) --no-print-directory SAN=thread B=$B/tsan \
		$(tsan_unit:%=$B/tsan/unit/%)
	@for t in $(tsan_unit); do SANDLOCK_PROGRAM=$(abspath $B)/sandlock \
		TSAN_OPTIONS=report_thread_leaks=0 \
		$B/tsan/unit/$$t || exit 1; done

# Of the embedder only: what it starts is another program. Forked helpers have
# but one of its threads, so what the others held looks lost there.
valgrind_unit := test_capi test_handlers

valgrind: $B/sandlock $(valgrind_unit:%=$B/unit/%)
	@for t in $(valgrind_unit); do SANDLOCK_PROGRAM=$(abspath $B)/sandlock \
		SANDLOCK_UNDER_VALGRIND=1 valgrind -q --error-exitcode=9 \
			--leak-check=full --show-leak-kinds=definite \
			--errors-for-leak-kinds=definite --fair-sched=yes \
			--trace-children=no --child-silent-after-fork=yes \
			$B/unit/$$t || exit 1; done

$B/bench/%: $B/obj/bench/%.o $B/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD) $(ld) $(exe_ldflags) -o $@ $^ $(static_libs)

# Searches for new inputs: make fuzz-json CC=clang B=build/fuzzer TIME=600.
fuzz-%: tests/fuzz/fuzz_%.c
	+@$(MAKE) CC=$(CC) B=$B SAN=address,undefined,fuzzer-no-link \
		$B/obj/tests/fuzz/fuzz_$*.o $B/obj/internal.a
	@mkdir -p $B/corpus/$*
	$(CC) -fsanitize=address,undefined,fuzzer -o $B/fuzzer-$* \
		$B/obj/tests/fuzz/fuzz_$*.o $B/obj/internal.a $(static_libs)
	$B/fuzzer-$* -max_total_time=$(or $(TIME),60) $B/corpus/$* \
		tests/fuzz/corpus/$*

# As root this works on a bare Debian: nothing is compiled before the packages
# are there.
check:
	@scripts/packages install build test
	+@$(MAKE) --no-print-directory check-built

check-built: all unit-build fuzz-build $B/bench/api $B/sdk/libsandlock.pc
	BUILD=$(abspath $B) tests/run $(TESTS)

recheck: all unit-build fuzz-build $B/bench/api $B/sdk/libsandlock.pc
	BUILD=$(abspath $B) tests/run --failed

lint:
	@scripts/packages install build test lint
	+@$(MAKE) --no-print-directory compile_commands.json \
		$B/libsandlock.so $B/sandlock
	B=$B scripts/lint

demo:
	@scripts/packages install build demo
	+@$(MAKE) --no-print-directory all
	BUILD=$(abspath $B) scripts/demo

bench:
	@scripts/packages install build bench
	+@$(MAKE) --no-print-directory all $B/bench/notify \
		$B/bench/api
	BUILD=$(abspath $B) bench/run
	@$B/bench/notify

# The Rust program of the same name, for bench/run, and its Python module; needs
# cargo and pip.
PEERS_ROOT ?= /opt/peers

bench-peers:
	cargo install --locked --root $(PEERS_ROOT) sandlock-cli@0.9.0 \
		sandlock-oci@0.9.0
	python3 -m pip install --quiet --target $(PEERS_ROOT)/python \
		sandlock==0.9.0

compile_commands.json: Makefile $B/flags
	@{ echo '['; sep=; \
	for f in $(lib_src) $(cmd_src) $(unit_src) $(fuzz_src) \
			$(wildcard tests/fuzz/replay.c); do \
		printf '%s{ "directory": "%s", "file": "%s", "command": "%s" }' \
			"$$sep" '$(CURDIR)' "$$f" \
			'$(subst ",\",$(cc)) -c '"$$f"; \
		sep=','; echo; \
	done; echo ']'; } >$@

# For programs that use the libraries where they are built, as the tests of the
# SDKs: PKG_CONFIG_PATH=build/sdk.
$B/sdk/libsandlock.pc: libsandlock.pc.in include/sandlock/base.h $B/flags
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(CURDIR)|' -e 's|@LIBDIR@|$(abspath $B)|' \
		-e 's|@VERSION@|$(version)|' $< >$@

# -------------------------------------------------------------- install --

$B/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(call say,MAN) scdoc <$< >$@

man: $(man)

# Always: PREFIX may be another one.
$B/libsandlock.pc: libsandlock.pc.in include/sandlock/base.h FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@VERSION@|$(version)|' $< >$@

bindir = $(DESTDIR)$(PREFIX)/bin
libdir = $(DESTDIR)$(LIBDIR)
sharedir = $(DESTDIR)$(PREFIX)/share
bash_completions = $(sharedir)/bash-completion/completions
zsh_completions = $(sharedir)/zsh/site-functions
fish_completions = $(sharedir)/fish/vendor_completions.d

install: all
	+@$(MAKE) --no-print-directory install-built

# What is below /usr/local the loader finds by ldconfig's cache alone.
install-built: man $B/libsandlock.pc
	install -D -m 755 $B/sandlock $(bindir)/sandlock
	ln -sf sandlock $(bindir)/sandlock-oci
	for h in $(headers); do \
		install -D -m 644 $$h $(DESTDIR)$(PREFIX)/$$h || exit 1; \
	done
	install -D -m 644 $B/libsandlock.a $(libdir)/libsandlock.a
	install -D -m 755 $B/libsandlock.so $(libdir)/libsandlock.so.$(version)
	ln -sf libsandlock.so.$(version) $(libdir)/$(soname)
	ln -sf $(soname) $(libdir)/libsandlock.so
	install -D -m 644 $B/libsandlock.pc $(libdir)/pkgconfig/libsandlock.pc
	for m in $(man); do \
		install -D -m 644 $$m \
			$(sharedir)/man/man$${m##*.}/$${m##*/} || exit 1; \
	done
	install -D -m 644 completions/sandlock.bash $(bash_completions)/sandlock
	ln -sf sandlock $(bash_completions)/sandlock-oci
	install -D -m 644 completions/_sandlock $(zsh_completions)/_sandlock
	install -D -m 644 completions/sandlock.fish \
		$(fish_completions)/sandlock.fish
	ln -sf sandlock.fish $(fish_completions)/sandlock-oci.fish
	$(if $(DESTDIR),,ldconfig 2>/dev/null || true)

uninstall:
	rm -f $(bindir)/sandlock $(bindir)/sandlock-oci \
		$(addprefix $(DESTDIR)$(PREFIX)/,$(headers)) \
		$(libdir)/libsandlock.a $(libdir)/libsandlock.so \
		$(libdir)/$(soname) $(libdir)/libsandlock.so.$(version) \
		$(libdir)/pkgconfig/libsandlock.pc \
		$(bash_completions)/sandlock $(bash_completions)/sandlock-oci \
		$(zsh_completions)/_sandlock $(fish_completions)/sandlock.fish \
		$(fish_completions)/sandlock-oci.fish
	rmdir $(DESTDIR)$(PREFIX)/include/sandlock 2>/dev/null || true
	for m in $(notdir $(man)); do \
		rm -f $(sharedir)/man/man$${m##*.}/$$m; \
	done

clean:
	rm -rf $B compile_commands.json

.PHONY: all examples unit unit-build fuzz-build fuzz-replay check check-built \
	recheck lint demo bench bench-peers man install install-built tsan uninstall valgrind clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(lib_obj:.o=.d) $(cmd_obj:.o=.d)
-include $(patsubst %.c,$B/obj/%.d,$(unit_src) $(fuzz_src) \
	bench/notify.c bench/api.c)
