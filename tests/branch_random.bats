# Random programs on a branch, held against the same ones on the directory as
# it is (helpers/branch_fuzz.py has what is compared and how to go on longer).
# The seeds are fixed; each ends in its own way.
load lib/common

setup() {
	skip_unless_root
	MORE_HELPERS=play
	begin
	only_sandlock
}

teardown() { finish; }

# fuzz TIER OPTION... SEED, where the kernel has that.
fuzz() {
	[ "$1" = namespaces ] || has_tier_c || return 0
	run timeout 100 env BUILD="$BUILD" HELPERS="$HELPERS" \
		SANDLOCK="$SANDLOCK" python3 "$TESTS/helpers/branch_fuzz.py" \
		--ops 60 --isolation "$@"
	expect_status 0
}

@test "random programs: commit and abort" {
	fuzz namespaces --end commit 1
	fuzz namespaces --end abort 3
	fuzz notify --end commit 2
}

@test "random programs: a commit that is killed, and recovered or taken back" {
	command -v strace >/dev/null || skip "strace is not installed"
	fuzz namespaces --end crash 4
	fuzz notify --end rollback 6
}

@test "random programs: the host changes things meanwhile" {
	fuzz namespaces --end conflict 8
	fuzz namespaces --end skip 3042
	fuzz notify --end force 10
}

@test "random programs: in parts" {
	fuzz namespaces --end parts 11
}

@test "random programs: of an ordinary user" {
	fuzz namespaces --user 54399 --end skip 12
	fuzz notify --user 54399 --end commit 13
}
