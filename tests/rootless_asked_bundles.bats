# The same for an ordinary user. tests/run starts this as one.
load lib/common
load lib/embed
load lib/asking
load lib/asked_bundles

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	ROOTLESS=1
	begin_asked
	unshare -U true 2>/dev/null || skip "no user namespaces for ordinary users"
}

teardown() { finish; }

@test "rootless asked bundle: verdicts, of paths and programs as they are inside" {
	verdicts_hold
}

@test "rootless asked bundle: what exec starts is judged, handlers answer" {
	exec_joins
	run handle uname=errno:13 getppid=return:4242 -- \
		sh -c 'echo $PPID; uname -s || :'
	expect_output 4242
	expect_output 'called 2'
}

@test "rootless asked bundle: created and detached, it is answered by name" {
	created_is_asked
	detached_is_asked
}

@test "rootless asked bundle: what network calls do is what the kernel would have done" {
	with_python
	config '.process.capabilities |= map_values(. + ["CAP_NET_BIND_SERVICE"])'
	network_is_the_kernels
	grep -q '^low ok' "$W/kernel"
	config '.process.capabilities |= map_values([])'
	network_is_the_kernels
	grep -q '^low EACCES' "$W/kernel"
}

@test "rootless asked bundle: verdicts about its network" {
	network_verdicts_hold
}

@test "rootless asked bundle: destinations are asked about by name" {
	destinations_are_asked
}
