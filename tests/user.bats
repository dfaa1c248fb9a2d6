# What root prepares and an ordinary user runs.
load lib/common
load lib/user

setup_file() {
	[ "$(id -u)" -eq 0 ] || return 0
	user_add
}

teardown_file() { user_del; }

setup() {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	D=$TEST_USER_DIR/$BATS_TEST_NUMBER
	mkdir -p "$D/rootfs/bin" "$D/rootfs/proc" "$D/rootfs/dev" "$D/rootfs/sys"
	cp /bin/busybox "$D/rootfs/bin/sh"
	chown -R "$TEST_USER:" "$D"
	install -m 755 "${SANDLOCK:-build/sandlock}" "$TEST_USER_DIR/sandlock"
}

@test "a root directory of a group that is not mapped keeps it" {
	as_user sh -c "cd $D && ../sandlock spec --rootless"
	jq '.process.terminal = false | .process.args = ["/bin/sh", "-c", "echo 1 >/f"]' \
		"$D/config.json" >"$D/new"
	mv "$D/new" "$D/config.json"
	chgrp 0 "$D/rootfs"
	as_user "$TEST_USER_DIR/sandlock" run -b "$D" b1
	run as_user "$TEST_USER_DIR/sandlock" diff b1
	[ "$status" -eq 0 ]
	[ "$output" = "A f" ]
	as_user "$TEST_USER_DIR/sandlock" commit b1
	[ "$(stat -c %g "$D/rootfs")" = 0 ]
	[ "$(cat "$D/rootfs/f")" = 1 ]
}

@test "a cgroup of root's that has the sandbox's name is in nobody's way" {
	local cgroup="/sys/fs/cgroup/unified/slu-$$"
	[ -d /sys/fs/cgroup/unified ] || cgroup="/sys/fs/cgroup/slu-$$"
	mkdir "$cgroup"
	run as_user sh -c "cd $D && ../sandlock run --name slu-$$ -- echo hi"
	rmdir "$cgroup"
	[ "$status" -eq 0 ]
	[ "$output" = hi ]
}
