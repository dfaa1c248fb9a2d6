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

# The bundle has the host's python, bundle_net.py and net.py, which it needs.
with_python() {
	cp "$TESTS/helpers/bundle_net.py" "$TESTS/helpers/net.py" "$R/bin/"
	ln -sf usr/lib usr/lib64 "$R/"
	config '.mounts += [{destination: "/usr", type: "bind",
			source: "/usr", options: ["rbind", "ro"]}]
		| .linux.namespaces |= map(select(.type != "network"))
			+ [{type: "network"}]'
	config '.process.args = ["/usr/bin/python3", "-B",
		"/bin/bundle_net.py", "all"]'
}

# What a program does to its network comes out as it does without anybody who
# decides: ids, capabilities, paths, signals.
network_is_the_kernels() {
	rm -rf "$R"/tmp/*
	run sandlock run -b "$B" --on-exit=abort --on-error=abort "$N"
	printf '%s\n' "$output" | grep -v '^sandlock: ' >"$W/kernel"
	grep -q '^then' "$W/kernel"
	rm -rf "$R"/tmp/*
	run policy sync nothing 0 --
	printf '%s\n' "$output" | grep -v -e '^exit' -e '^freed' >"$W/judged"
	diff "$W/kernel" "$W/judged"
}

# A line for each "FAMILY,TYPE,PROTOCOL": "ok" or the errno.
sockets_of() {
	cat <<-END
		import errno, socket
		for s in "$1".split():
		    try:
		        socket.socket(*map(int, s.split(",")))
		        print("ok")
		    except OSError as e:
		        print(errno.errorcode[e.errno])
	END
}

# One connection to each destination: "ok" or the errno.
connecting() {
	local to

	for to in "$@"; do
		printf '/usr/bin/python3 -B /bin/bundle_net.py to %s\n' \
			"${to/:/ }"
	done
}

# By a callback, which hears of it, refuses it and takes the network away.
network_verdicts_hold() {
	with_python
	run policy sync network 0 --
	expect_output 'event network bind - 127.0.0.1:7001'
	expect_output 'event network connect - 127.0.0.1:7001'
	expect_output 'event network sendto - 127.0.0.1:7002'
	expect_output 'event network sendmsg - 127.0.0.1:7002'
	expect_output 'event network sendmmsg - 127.0.0.1:7002'
	rm -rf "$R"/tmp/*
	run policy later connect 13 -- sh -c "$(connecting 127.0.0.1:9)"
	expect_output EACCES
	run policy sync bind 98 -- nc -l -p 80
	expect_output 'Address already in use'
	run policy drop connect 0 -- sh -c "$(connecting 127.0.0.1:9)"
	expect_output EPERM
	# 9 is refused by the kernel, 8 by what is taken away.
	make_tool
	ONLY='127.0.0.1:9' run policy restrict /data/tool 0 -- sh -c "
		$(connecting 192.0.2.1:8); /data/tool
		$(connecting 192.0.2.1:8 127.0.0.1:9 127.0.0.1:8); :"
	expect_output $'ENETUNREACH\n'
	expect_output 'restricted 0'
	[ "$(grep -c ECONNREFUSED <<<"$output")" = 3 ]
	ONLY='127.0.0.1:9' MORE='127.0.0.2:7' run policy grant /data/tool 0 -- \
		sh -c "/data/tool; $(connecting 192.0.2.1:8)"
	expect_output 'granted 0'
	expect_output ECONNREFUSED
}

destinations_are_asked() {
	with_python
	script "$(connecting 127.0.0.1:9 127.0.0.2:9 127.0.0.2:10); echo up
		/usr/bin/python3 -B /bin/bundle_net.py changed /tmp/go
		$(connecting 127.0.0.2:11); sleep 1000"
	annotate io.sandlock.branch none
	serve_bundle --ask-connect 127.0.0.2
	wait_for 127.0.0.2:9
	equal first "$(cat "$W/out")" ECONNREFUSED
	sandlock approve "$N" "$ID"
	wait_for 127.0.0.2:10
	sandlock deny "$N" "$ID"
	eventually grep -q up "$W/out"
	equal answers "$(xargs <"$W/out")" 'ECONNREFUSED ECONNREFUSED EPERM up'
	# What was seen is what is done.
	wait_for 127.0.0.2:12
	touch "$R/tmp/go"
	eventually test -e "$R/tmp/go.done"
	sandlock approve "$N" "$ID"
	eventually grep -q connected "$W/out"
	grep -qxF "connected 0 ('127.0.0.2', 12) ENOTCONN" "$W/out"
	wait_for 127.0.0.2:11
	run sandlock approvals "$N"
	expect_output 'connect to 127.0.0.2:11'
	sandlock kill "$N"
	served || :
	# What an engine says, of one that nobody waits for.
	annotate io.sandlock.ask.connect '192.0.2.1,127.0.0.2'
	script "$(connecting 127.0.0.1:9 127.0.0.2:9)"
	sandlock run --detach -b "$B" "$N" >"$W/out" 2>&1 3>&-
	wait_for 127.0.0.2:9
	sandlock exec "$N" sh -c "$(connecting 127.0.0.2:10)" \
		>"$W/said" 2>&1 3>&- &
	eventually two_wait
	sandlock deny "$N" "$(sandlock approvals --json "$N" |
		jq -r '.approvals[1].approval.id')"
	wait $!
	equal exec "$(cat "$W/said")" EPERM
	sandlock approve "$N" "$ID"
	eventually is_stopped
	equal detached "$(xargs <"$W/out")" 'ECONNREFUSED ECONNREFUSED'
	sandlock delete "$N"
}
