# sandlock: plain GNU make. Everything that is built lands below build/.
#
#	make [DEVELOPER=1] [SAN=address,undefined] [CC=clang] [B=build]

B ?= build
CC ?= gcc
PREFIX ?= /usr/local
DESTDIR ?=

CFLAGS ?= -O2 -g
base_cflags := -std=gnu17 -D_GNU_SOURCE -Iinclude -Iruntime -I. -fPIC \
	-fvisibility=hidden -fstack-protector-strong \
	-Wall -Wextra -Wformat=2 -Wundef -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Wvla \
	-Wno-unused-parameter -Wno-missing-field-initializers
ifdef DEVELOPER
base_cflags += -Werror
endif
ifdef SAN
base_cflags += -fsanitize=$(SAN) -fno-omit-frame-pointer
base_ldflags += -fsanitize=$(SAN)
endif

lib_src := $(wildcard runtime/*.c runtime/*/*.c spec/*.c hooks/*.c)
cmd_src := $(wildcard cmd/*.c)
lib_obj := $(lib_src:%.c=$B/obj/%.o)
lib_obj += $B/obj/runtime/sandbox/launcher/blob.o
cmd_obj := $(cmd_src:%.c=$B/obj/%.o)
libs := -Wl,-Bstatic -lseccomp -lcap -lyajl_s -lmd -Wl,-Bdynamic

unit_src := $(wildcard tests/unit/test_*.c)
unit_bin := $(unit_src:tests/unit/%.c=$B/unit/%)

all: $B/sandlock $B/sandlock-oci

$B/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(base_cflags) $(CFLAGS) -MMD -MP -c -o $@ $<

# The launcher is a program of its own, embedded as bytes: no libc, no start
# files, no sanitizer, whatever the library is built with.
launcher_cflags := -std=gnu17 -O2 -ffreestanding -fno-stack-protector -fno-pic \
	-fno-asynchronous-unwind-tables -Wall -Wextra
launcher_ldflags := -nostdlib -static -no-pie -s -Wl,-z,noseparate-code \
	-Wl,-z,noexecstack -Wl,--build-id=none

$B/launcher: runtime/sandbox/launcher/main.c
	@mkdir -p $(@D)
	$(CC) $(launcher_cflags) $(launcher_ldflags) -o $@ $<

$B/obj/runtime/sandbox/launcher/blob.o: runtime/sandbox/launcher/blob.S $B/launcher
	@mkdir -p $(@D)
	$(CC) -DLAUNCHER='"$B/launcher"' -c -o $@ $<

$B/libsandlock.a: $(lib_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$B/sandlock: $(cmd_obj) $B/libsandlock.a
	$(CC) $(base_ldflags) $(LDFLAGS) -o $@ $^ $(libs)

$B/sandlock-oci: $B/sandlock
	ln -sf sandlock $@

$B/unit/%: tests/unit/%.c $B/libsandlock.a
	@mkdir -p $(@D)
	$(CC) $(base_cflags) $(CFLAGS) $(base_ldflags) -o $@ $< $B/libsandlock.a $(libs) -lcmocka

unit: $(unit_bin)
	@for t in $(unit_bin); do $$t || exit 1; done

clean:
	rm -rf $B

.PHONY: all unit clean
.SECONDARY:
-include $(lib_obj:.o=.d) $(cmd_obj:.o=.d)
