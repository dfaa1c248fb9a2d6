# What confines a command of the host, for an ordinary user.
load lib/common

setup() {
	begin
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

inside() {
	run sandlock run --on-exit=abort --on-error=abort -- /bin/sh -c "$1"
}

@test "confine: an ordinary user stays who he is, without capabilities" {
	inside 'id -u; grep -E "^(Cap...|NoNewPrivs|Seccomp):" /proc/self/status'
	expect_status 0
	[ "${lines[0]}" = "$(id -u)" ]
	grep -qE '^NoNewPrivs:.1$' <<<"$output"
	grep -qE '^Seccomp:.2$' <<<"$output"
	! grep -E '^Cap...:.*[1-9a-f]' <<<"$output" || false
}

@test "confine: an ordinary user gets no namespace and no mount" {
	inside 'unshare -Ur true; umount /tmp; mount -t tmpfs t /tmp
		touch /usr/x; echo x >/dev/null && echo done; : >/dev/new'
	expect_output 'unshare failed'
	expect_output '/dev/new: Permission denied'
	expect_output done
}

@test "limits: an ordinary user's processes are counted by sandbox" {
	run sandlock run --on-exit=abort --on-error=abort -P 4 -- \
		sh -c 'for i in 1 2 3 4 5 6; do sleep 1 & done; wait'
	[ "$status" -ne 0 ]
	expect_output fork
	run sandlock run --on-exit=abort --on-error=abort -P 10 -- \
		sh -c 'for i in 1 2 3 4 5 6; do sleep 0.1 & done; wait; echo all'
	expect_status 0
	expect_exactly all
}

@test "check: an ordinary user is told what is there" {
	run sandlock check --format json
	expect_status 0
	jq -e '.usable and .tier == "A"' <<<"$output"
	jq -e '.checks | map(.name) | index("user-namespace") != null and
		index("subordinate-ids") != null' <<<"$output"
}
