# The quota of a bundle's branch: --quota, or an annotation.
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	snap_root >"$W/old"
	script 'dd if=/dev/zero of=/f bs=64k count=64 2>&-; sleep 100'
}

teardown() { finish; }

unchanged() {
	snap_root >"$W/now"
	same "$W/old" "$W/now"
}

@test "bundle quota: a run in the foreground is killed, and says why" {
	run sandlock run -b "$B" --quota 1M --on-error=abort "$N"
	expect_status 137
	expect_output "the branch of '$N' took "
	has_no_branch "$N"
	unchanged
	annotate io.sandlock.branch.quota 1M
	annotate io.sandlock.branch.on-error abort
	run sandlock_oci run -b "$B" "$N"
	expect_status 137
	expect_output "its quota is 1M"
	has_no_branch "$N"
	# The option is what counts.
	script 'dd if=/dev/zero of=/f bs=64k count=64 2>&-; sleep 0.3'
	sandlock run -b "$B" --quota 16M --on-exit=abort "$N"
	unchanged
}

@test "bundle quota: what is created has it from its waiter" {
	create "$N" --quota 1M
	has_status "$N" created
	sandlock start "$N"
	eventually has_status "$N" stopped
	eventually has_branch_state "$N" pending
	equal exit "$(field '.exit | tojson')" '{"over_quota":true}'
	run sandlock why "$N"
	expect_output 'io.sandlock.branch.quota 1048576'
	sandlock delete "$N"
	sandlock abort "$N"
	unchanged
}

@test "bundle quota: an annotation is enough, also for an engine, and on-error holds" {
	annotate io.sandlock.branch.quota 1048576
	annotate io.sandlock.branch.on-error abort
	create_oci "$N"
	sandlock_oci start "$N"
	eventually has_status "$N" stopped
	eventually has_no_branch "$N"
	sandlock_oci delete "$N"
	unchanged
}

@test "bundle quota: what fits goes on, and a sandbox without a pid namespace is ended whole" {
	script 'dd if=/dev/zero of=/f bs=64k count=64 2>&-; rm /f; sleep 0.3; exit 7'
	run sandlock run -b "$B" --quota 16M --on-error=abort "$N"
	expect_status 7
	drop_ns pid
	script 'sleep 1000 & dd if=/dev/zero of=/f bs=64k count=64 2>&-; sleep 100'
	create "$N" --quota 1M --on-error=abort
	sandlock start "$N"
	eventually has_status "$N" stopped
	eventually has_no_branch "$N"
	run sandlock ps "$N"
	refute_output 'sleep 1000'
	sandlock delete "$N"
	unchanged
}

@test "bundle quota: without its waiter nothing runs on" {
	local init waiter

	script 'sleep 1000'
	create_running "$N" --quota 1M --on-error=abort
	init=$(pid_of "$N")
	waiter=$(sed -n 2p "$W/run/$N/pid")
	[ "$waiter" != "$init" ]
	kill -9 "$waiter"
	eventually is_gone "$init"
	sandlock delete "$N"
	sandlock abort "$N" || true
	unchanged
}

@test "bundle quota: bad values, and a root without a branch" {
	run sandlock create -b "$B" --quota 1X "$N"
	expect_status 2
	expect_output "--quota: '1X' is not a number of bytes"
	annotate io.sandlock.branch.quota 0
	run sandlock create -b "$B" "$N"
	expect_status 1
	expect_output "'0' is no size like 512M"
	config 'del(.annotations)'
	run sandlock create -b "$B" --quota 1M --branch=none "$N"
	expect_status 2
	expect_output 'there is no branch'
}
