# What a callback may limit, for an ordinary user. tests/run starts this as one.
load lib/common
load lib/embed

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	begin_embed
	cd "$D"
}

teardown() { finish; }

@test "rootless: memory and processes are limited while it runs" {
	limits_hold
}
