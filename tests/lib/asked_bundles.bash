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

refute_in() {
	if grep -q "$1" "$2"; then
		cat "$2"
		return 1
	fi
}

make_tool() {
	printf '#!/bin/sh\necho tool ran\n' >"$R/data/tool"
	chmod 755 "$R/data/tool"
}

is_stopped() {
	[ "$(sandlock state "$N" | jq -r .status)" = stopped ]
}

# Created, so that nobody waits for it: answers by name, until its waiter dies.
created_is_asked() {
	local out=$W/out

	make_tool
	script '/data/tool; echo "<$?>"; cat /etc/passwd; echo up; /data/tool'
	sandlock create "$N" -b "$B" --ask-exec /data/tool \
		--ask-open /etc/passwd >"$out" 2>&1 3>&-
	[ "$(sandlock state "$N" | jq -r .status)" = created ]
	sandlock start "$N"
	wait_for /data/tool
	sandlock deny "$N" "$ID"
	wait_for /etc/passwd
	sandlock approve "$N" "$ID"
	wait_for /data/tool
	grep -q '<126>' "$out"
	grep -q 'root:x:0:0' "$out"
	grep -q up "$out"
	kill -9 "$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")"
	eventually is_stopped
	refute_in 'tool ran' "$out"
	sandlock delete "$N"
	sandlock abort "$N" || :
}

# Detached, and by annotations: what an engine does.
detached_is_asked() {
	make_tool
	script '/data/tool'
	run sandlock run --detach -b "$B" --ask-exec /data/tool --ask=tty "$N"
	expect_output 'has no terminal to be asked on'
	annotate io.sandlock.ask.exec '/nothing,/data/tool'
	annotate io.sandlock.ask.timeout 100
	annotate io.sandlock.branch none
	sandlock run --detach -b "$B" "$N" >"$W/out" 2>&1 3>&-
	wait_for /data/tool
	(
		sandlock exec "$N" /data/tool >"$W/said" 2>&1 3>&- ||
			echo "end $?" >>"$W/said"
	) &
	eventually two_wait
	sandlock deny "$N" "$(sandlock approvals --json "$N" |
		jq -r '.approvals[1].approval.id')"
	eventually grep -q end "$W/said"
	refute_in 'tool ran' "$W/said"
	sandlock approve "$N" "$ID"
	eventually is_stopped
	eventually grep -q 'tool ran' "$W/out"
	sandlock delete "$N"
	set_args /nothing
	run -127 sandlock run --detach -b "$B" "$N"
	run sandlock state "$N"
	expect_output 'does not exist'
}

two_wait() {
	[ "$(sandlock approvals --json "$N" | jq '.approvals | length')" = 2 ]
}
