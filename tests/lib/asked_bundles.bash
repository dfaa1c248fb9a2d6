# Bundles that a request asks for, as root and as an ordinary user; after
# lib/common, lib/embed.

begin_asked() {
	begin_embed
	make_bundle
	export BUNDLE=$B
}

handle() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" "$@"
}

# Verdicts, at once and later, about programs and files as they are inside.
verdicts_hold() {
	run policy sync execve 0 -- sh -c '/bin/env >/dev/null; echo $?'
	expect_output 'event process execve /bin/busybox sh -c'
	expect_output 'event process execve /bin/busybox /bin/env'
	expect_output 'exit 0'
	run policy later /bin/busybox 13 -- sh -c '/bin/env; echo "<$?>"'
	expect_output '<126>'
	PROGRAM=1 run policy sync /etc/passwd 2 -- cat /etc/passwd
	expect_output 'event file openat /etc/passwd by /bin/busybox'
	expect_output 'No such file'
	run policy later /etc/passwd 0 -- cat /etc/passwd
	expect_output 'root:x:0:0'
	ONLY=/data run policy deny-path /etc/passwd 0 -- \
		sh -c 'cat /data/a /etc/passwd /data/b'
	expect_output one
	expect_output "can't open '/data/b': Permission denied"
}

# What exec starts is asked about, too.
exec_joins() {
	"$HELPERS/policy" sync execve 0 -- sleep 1000 >"$W/said" 2>&1 3>&- &
	started $!
	eventually grep -q 'sleep 1000' "$W/said"
	N=$(basename "$(dirname "$SANDLOCK_ROOT"/*/state.json)")
	eventually grep -q '"running"' <(sandlock state "$N")
	run sandlock exec "$N" echo hello
	expect_output hello
	grep -q 'event process execve /bin/busybox echo hello' "$W/said"
	run sandlock inspect "$N"
	expect_output "\"bundle\": \"$B\""
	sandlock kill "$N"
}
