# What `make install` puts where, and that it can be used there.
load lib/common
load lib/embed

setup() {
	begin_embed
	DEST=$W/dest
	export PKG_CONFIG_SYSROOT_DIR=$DEST
	export PKG_CONFIG_PATH=$DEST/opt/sl/lib/pkgconfig
}

teardown() { finish; }

# make_for TARGET PREFIX: install-built takes what is built, with whatever flags.
make_for() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$REPO" B="$BUILD" \
		DESTDIR="$DEST" PREFIX="$2" "$1" >"$W/make" 2>&1 || {
		cat "$W/make" >&2
		return 1
	}
}

# compile FILE MODE FLAG...: an example, as the manual page says.
compile() {
	# The flags are words on purpose.
	# shellcheck disable=SC2046
	gcc -Wall -Werror "${@:3}" -o "$1" "$REPO/examples/c/pipeline.c" \
		$(pkg-config $2 --cflags --libs libsandlock)
}

@test "install: a program is compiled and runs, shared and static" {
	make_for install-built /opt/sl
	compile "$W/shared" --shared
	LD_LIBRARY_PATH=$DEST/opt/sl/lib run "$W/shared" "$D/f"
	expect_status 0
	expect_exactly 1
	compile "$W/static" --static -static
	run "$W/static" "$D/f"
	expect_status 0
	expect_exactly 1
}

@test "install: libsandlock.pc has this PREFIX, and the loader is told of a library" {
	mkdir "$W/bin"
	printf '#!/bin/sh\necho x >>%s/told\n' "$W" >"$W/bin/ldconfig"
	chmod 755 "$W/bin/ldconfig"
	PATH=$W/bin:$PATH
	make_for install-built /opt/other
	[ ! -e "$W/told" ]
	unset PKG_CONFIG_SYSROOT_DIR
	export PKG_CONFIG_PATH=$W/sl/lib/pkgconfig
	DEST='' make_for install-built "$W/sl"
	equal prefix "$(pkg-config --variable=prefix libsandlock)" "$W/sl"
	equal libdir "$(pkg-config --variable=libdir libsandlock)" "$W/sl/lib"
	equal told "$(cat "$W/told")" x
}

@test "install: the program with its pages, and uninstall leaves no file" {
	make_for install-built /usr
	run "$DEST/usr/bin/sandlock-oci" --version
	expect_status 0
	expect_output "version 0"
	[ -s "$DEST/usr/share/man/man1/sandlock.1" ]
	[ -s "$DEST/usr/share/man/man7/sandlock-branch.7" ]
	[ -s "$DEST/usr/share/bash-completion/completions/sandlock" ]
	[ -z "$(find "$DEST" -xtype l)" ]
	make_for uninstall /usr
	equal left "$(find "$DEST" ! -type d)" ""
}
